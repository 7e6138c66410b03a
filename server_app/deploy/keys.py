"""Certificates for the coordinator, and a key for each site."""

import ipaddress
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from server_app.deploy.places import (
    CoordinatorPlace,
    SitePlace,
    is_host,
    is_ip,
    refuse_unusable,
)
from task.errors import ConfigError, system_reason
from task.machine.files import from_home, make_private, write_secret
from task.site import SITE_NAME, SITE_NAME_FORM

DAYS = 825

SETTINGS = """\
# This site's name and limits. Nothing that a coordinator sends can change them.
site = {name}
data-dir = {data}
memory-dir = {memory}
models-dir = {models}

# device = "cuda"      # cpu, cuda, or auto: a GPU where there is one
# max-norm = 10.0      # clip the update that is sent to this Euclidean norm
# max-epochs = 10      # refuse experiments with more local epochs a round
# max-seconds = 3600   # end the work on a message that takes longer
# max-batch-size = 256 # refuse experiments with larger batches
# max-model-megabytes = 500  # refuse experiments with a larger model
# keep-free-megabytes = 5000  # write no images, client state or models if less would stay free
# tell-labels = true   # send the number of images of each class
# tell-statistics = true  # send means and covariances of features, which can resemble images
# max-epsilon = 8.0    # train only with the site's own noise, up to this epsilon over all runs
# delta = 1e-6         # the delta of max-epsilon; far below 1 / (number of images)
# require-approval = true  # train only what you have approved: univarfl deploy approve
# require-secure = true  # take part in masked rounds only
# roster = "/DIRECTORY"  # with NAME.pub of every site; masked rounds need it
# colluding = 1        # how many of these sites may work together with the coordinator
# max-share = 0.75     # the largest weight of one update in a masked sum
# extensions = ["NAME"]  # installed packages whose methods and data sources may run here
"""


def make_coordinator(place: CoordinatorPlace, hosts: Sequence[str]) -> None:
    """Make an authority and a certificate for the SuperLink at these names and addresses.

    An existing authority is kept, so that sites need no new file. It signs a certificate for these
    names, which replaces the old one.

    Raises:
        ConfigError: a host is not a name or an address, the existing authority cannot be used, or
            a file cannot be written.
    """
    for host in hosts:
        if not is_host(host):
            raise ConfigError("--host", host, "must be a name or an address, without a port")
    with refuse_unusable(place.directory):
        place.sites.mkdir(parents=True, exist_ok=True)
        authority_key, authority = read_authority(place) or make_authority(place)
        key = new_key()
        everywhere = dict.fromkeys([*hosts, "localhost", "127.0.0.1"])
        signed = certificate("univarfl SuperLink", key, authority_key, authority, list(everywhere))
        place.key.unlink(missing_ok=True)
        write_key(place.key, key, PrivateFormat.PKCS8)
        place.certificate.write_bytes(signed.public_bytes(Encoding.PEM))


def read_authority(
    place: CoordinatorPlace,
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate] | None:
    """Return the existing authority's key and certificate; None if there is no key.

    Raises:
        ConfigError: a file cannot be read, the two do not belong together, the key is missing, or
            the certificate has expired.
    """
    if not place.authority_key.exists():
        if place.authority.exists():
            allowed = (
                f"is missing, and {place.authority.name} is there; put it back or, to make a new "
                f"authority for all sites, delete {place.authority.name}"
            )
            raise ConfigError("keys", place.authority_key, allowed)
        return None
    try:
        key = load_pem_private_key(place.authority_key.read_bytes(), None)
        authority = x509.load_pem_x509_certificate(place.authority.read_bytes())
        if key.public_key() != authority.public_key():
            raise ValueError(f"it is not the key of {place.authority.name}")
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TypeError("it is not an elliptic-curve key")
        if (end := authority.not_valid_after_utc) < datetime.now(tz=UTC):
            raise ValueError(f"{place.authority.name} has expired on {end:%Y-%m-%d}")
    except (OSError, TypeError, ValueError, UnsupportedAlgorithm) as error:
        reason = system_reason(error) if isinstance(error, OSError) else str(error)
        allowed = (
            f"cannot be used: {reason}; restore it and {place.authority.name} from a copy, or "
            "delete both to make a new authority for all sites"
        )
        raise ConfigError("keys", place.authority_key, allowed) from None
    return key, authority


def make_authority(
    place: CoordinatorPlace,
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    """Make and write the coordinator's authority; return its key and certificate."""
    key = new_key()
    authority = certificate("univarfl coordinator", key, key, None, [])
    write_key(place.authority_key, key, PrivateFormat.PKCS8)
    place.authority.write_bytes(authority.public_bytes(Encoding.PEM))
    return key, authority


def make_site(place: SitePlace, name: str, data: Path) -> None:
    """Make a site's key pair, and its settings unless they exist.

    Raises:
        ConfigError: the key exists already, the name or the data directory cannot be used, or a
            file cannot be written.
    """
    if not SITE_NAME.fullmatch(name):
        raise ConfigError("--site", name, f"must be {SITE_NAME_FORM}")
    with refuse_unusable(data):
        if not from_home(data).is_dir():
            raise ConfigError("--data", data, "must be a directory with the site's images")
    own = {kind: str(place.directory / kind) for kind in ("memory", "models")}
    values = {"name": name, "data": str(from_home(data).absolute()), **own}
    quoted = {key: json.dumps(value, ensure_ascii=False) for key, value in values.items()}
    key = new_key()
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    with refuse_unusable(place.directory):
        refuse_to_overwrite(place.key(name))
        make_private(place.directory)
        write_key(place.key(name), key, PrivateFormat.OpenSSH)
        place.public_key(name).write_bytes(public + f" {name}\n".encode())
        if not place.settings.exists():  # a site that makes another key keeps its settings
            place.settings.write_text(SETTINGS.format(**quoted))
            place.settings.chmod(0o644)  # whatever rights this user's new files have


def new_key() -> ec.EllipticCurvePrivateKey:
    """Make a key on the curve that Flower's authentication uses."""
    return ec.generate_private_key(ec.SECP384R1())


def certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    signing_key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate | None,
    hosts: Sequence[str],
) -> x509.Certificate:
    """Return a certificate of `key`: self-signed, or signed by `authority` for `hosts`."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(tz=UTC)
    public = key.public_key()
    issuer_key = authority.public_key() if authority else public
    assert isinstance(issuer_key, ec.EllipticCurvePublicKey)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(authority.subject if authority else subject)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # clocks differ
        .not_valid_after(now + timedelta(days=DAYS))
        .add_extension(x509.BasicConstraints(ca=authority is None, path_length=None), critical=True)
        .add_extension(usage(authority is None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), critical=False
        )
    )
    if authority:
        names = [
            x509.IPAddress(ipaddress.ip_address(host)) if is_ip(host) else x509.DNSName(host)
            for host in hosts
        ]
        serves = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        builder = builder.add_extension(serves, critical=False)
    return builder.sign(signing_key, hashes.SHA384())


def usage(signs: bool) -> x509.KeyUsage:
    """Return what a key may be used for: to sign certificates, or in a TLS server's handshake."""
    return x509.KeyUsage(
        digital_signature=not signs, key_cert_sign=signs, crl_sign=signs,
        content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def write_key(path: Path, key: ec.EllipticCurvePrivateKey, form: PrivateFormat) -> None:
    """Write a private key to a new file that only its owner can read."""
    write_secret(path, key.private_bytes(Encoding.PEM, form, NoEncryption()))


def refuse_to_overwrite(*paths: Path) -> None:
    """Refuse to replace files that exist.

    Raises:
        ConfigError: one of them exists.
    """
    allowed = "exists already; to change the key: univarfl deploy keys DIR --site NAME --rotate"
    for path in paths:
        if path.exists():
            raise ConfigError("keys", path, allowed)
