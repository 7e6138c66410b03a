"""Certificates for the coordinator, and a key for each site."""

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from task.errors import ConfigError, system_reason
from task.machine.files import ONLY_OWNER, make_private, write_secret
from univarfl.deploy.places import (
    CoordinatorPlace,
    is_host,
    is_ip,
    refuse_unusable,
)

DAYS = 825


def make_coordinator(place: CoordinatorPlace, hosts: Sequence[str]) -> None:
    """Make an authority and a certificate for the SuperLink at these names and addresses.

    An existing authority is kept, so that sites need no new file. It signs a certificate for these
    names and for those of its last certificate, which it replaces.

    Raises:
        ConfigError: a host is not a name or an address, the existing authority cannot be used, or
            a file cannot be written.
    """
    for host in hosts:
        if not is_host(host):
            raise ConfigError("--host", host, "must be a name or an address, without a port")
    with refuse_unusable(place.directory):
        for directory in (place.directory, place.sites):
            make_private(directory)
            directory.chmod(ONLY_OWNER)  # it may have been there with other rights
        authority_key, authority = read_authority(place) or make_authority(place)
        key = new_key()
        everywhere = dict.fromkeys([*hosts, *certified(place, authority), "localhost", "127.0.0.1"])
        signed = certificate("univarfl SuperLink", key, authority_key, authority, list(everywhere))
        place.key.unlink(missing_ok=True)
        write_key(place.key, key, PrivateFormat.PKCS8)
        place.certificate.write_bytes(signed.public_bytes(Encoding.PEM))


def certified(place: CoordinatorPlace, authority: x509.Certificate) -> list[str]:
    """Return the names and addresses of the last certificate that an authority signed."""
    try:
        last = x509.load_pem_x509_certificate(place.certificate.read_bytes())
        last.verify_directly_issued_by(authority)
        found = last.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return []  # there is none, or it is of another authority
    addresses = map(str, found.get_values_for_type(x509.IPAddress))
    return [*found.get_values_for_type(x509.DNSName), *addresses]


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
