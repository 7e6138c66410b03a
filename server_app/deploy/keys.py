"""Certificates for the coordinator, a key for each site."""

import ipaddress
import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
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

from server_app.deploy.places import CoordinatorPlace, SitePlace, is_ip
from task.errors import ConfigError
from task.files import from_home

DAYS = 825
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
SETTINGS = """\
# What this site says of itself and allows. Nothing that a coordinator sends changes any of it.
site = {name}
data-dir = {data}
memory-dir = {memory}

# device = "cuda"      # cpu, cuda, or auto: a GPU where there is one
# max-norm = 10.0      # shorten what is sent to this length, from the model that was received
# max-epochs = 10      # refuse experiments with more local epochs a round
# tell-labels = true   # tell how many images there are of each class
"""


def make_coordinator(place: CoordinatorPlace, hosts: Sequence[str]) -> None:
    """Make an authority and a certificate for the SuperLink at these names and addresses.

    Where there is an authority already it stays, so that sites need nothing new, and signs a
    certificate for these names in place of the old one.

    Raises:
        ConfigError: a host is not a name or an address, or the authority cannot be read.
    """
    for host in hosts:
        if not (is_ip(host) or NAME.fullmatch(host)):
            raise ConfigError("--host", host, "must be a name or an address, without a port")
    place.sites.mkdir(parents=True, exist_ok=True)
    authority_key, authority = authority_of(place)
    key = new_key()
    everywhere = dict.fromkeys([*hosts, "localhost", "127.0.0.1"])
    signed = certificate("univarfl SuperLink", key, authority_key, authority, list(everywhere))
    place.key.unlink(missing_ok=True)
    write_secret(place.key, key, PrivateFormat.PKCS8)
    place.certificate.write_bytes(signed.public_bytes(Encoding.PEM))


def authority_of(
    place: CoordinatorPlace,
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    """The coordinator's authority, made if there is none.

    Raises:
        ConfigError: it cannot be read.
    """
    if place.authority_key.exists():
        try:
            key = load_pem_private_key(place.authority_key.read_bytes(), None)
            found = x509.load_pem_x509_certificate(place.authority.read_bytes())
        except (OSError, ValueError) as error:
            allowed = f"cannot be used ({error}); delete it to make a new one, for all sites"
            raise ConfigError("keys", place.authority_key, allowed) from None
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return key, found
    made = new_key()
    authority = certificate("univarfl coordinator", made, made, None, [])
    write_secret(place.authority_key, made, PrivateFormat.PKCS8)
    place.authority.write_bytes(authority.public_bytes(Encoding.PEM))
    return made, authority


def make_site(place: SitePlace, name: str, data: Path) -> None:
    """Make a site's key pair and its settings.

    Raises:
        ConfigError: there are some already, or the name cannot be a file's.
    """
    if not NAME.fullmatch(name):
        raise ConfigError("--site", name, "must be letters, digits, '.', '_' and '-'")
    if not from_home(data).is_dir():
        raise ConfigError("--data", data, "must be a directory, with a folder for each class")
    refuse_to_overwrite(place.key(name), place.settings)
    place.directory.mkdir(parents=True, exist_ok=True)
    key = new_key()
    write_secret(place.key(name), key, PrivateFormat.OpenSSH)
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    place.public_key(name).write_bytes(public + f" {name}\n".encode())
    memory = place.directory / "memory"
    written = {"name": name, "data": str(from_home(data).absolute()), "memory": str(memory)}
    quoted = {key: json.dumps(value, ensure_ascii=False) for key, value in written.items()}
    place.settings.write_text(SETTINGS.format(**quoted))


def new_key() -> ec.EllipticCurvePrivateKey:
    """A key on the curve that Flower's authentication uses."""
    return ec.generate_private_key(ec.SECP384R1())


def certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    signing_key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate | None,
    hosts: Sequence[str],
) -> x509.Certificate:
    """A certificate of `key`: an authority's own, or one that an authority signs for hosts."""
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
    """What a certificate's key is for: signing certificates, or a TLS server's handshake."""
    return x509.KeyUsage(
        digital_signature=not signs, key_cert_sign=signs, crl_sign=signs,
        content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def write_secret(path: Path, key: ec.EllipticCurvePrivateKey, form: PrivateFormat) -> None:
    """Write a private key that only its owner can read."""
    path.touch(mode=0o600, exist_ok=False)
    path.write_bytes(key.private_bytes(Encoding.PEM, form, NoEncryption()))


def refuse_to_overwrite(*paths: Path) -> None:
    """Keep keys that are there.

    Raises:
        ConfigError: one is.
    """
    for path in paths:
        if path.exists():
            raise ConfigError("keys", path, "is there already; delete it if it is to be replaced")
