"""The public keys of sites, as files hold them and as Flower lists them."""

import hashlib
from base64 import b64decode, b64encode
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_ssh_public_key,
)

LONGEST_FILE = 4096  # bytes


class PublicKeyError(ValueError):
    """A text is not the public key of a site; the message says why."""


def read_public_key(path: Path) -> str:
    """Return the public key in a file, without its comment.

    Raises:
        PublicKeyError: the file cannot be read, or holds something else.
    """
    try:
        with path.open("rb") as file:
            content = file.read(LONGEST_FILE + 1)
    except OSError as error:
        raise PublicKeyError(f"cannot be read: {error.strerror}") from None
    if len(content) > LONGEST_FILE or content.strip().count(b"\n"):
        raise PublicKeyError("has more than one line")
    return ssh_text(loaded(content))


def loaded(content: bytes) -> ec.EllipticCurvePublicKey:
    """Return the public key in OpenSSH's format.

    Raises:
        PublicKeyError: it is something else.
    """
    try:
        key = load_ssh_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        raise PublicKeyError("is not a public key") from None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP384R1):
        raise PublicKeyError("is not an ECDSA key on the curve P-384")
    return key


def ssh_text(key: ec.EllipticCurvePublicKey) -> str:
    """Return a public key as the line of its file, without a comment."""
    return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def pem(text: str) -> bytes:
    """Return a public key, given as by `ssh_text`, in the form in which Flower keeps it."""
    return loaded(text.encode()).public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def text_of_pem(content: bytes) -> str:
    """Return a public key that Flower keeps, as by `ssh_text`."""
    from cryptography.hazmat.primitives.serialization import load_pem_public_key  # noqa: PLC0415

    key = load_pem_public_key(content)
    return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def key_hash(text: str) -> str:
    """Return a public key's hash as ``ssh-keygen -l`` shows it."""
    digest = hashlib.sha256(b64decode(text.split()[1])).digest()
    return f"SHA256:{b64encode(digest).decode().rstrip('=')}"


def short_name(site: str, text: str) -> str:
    """Return a file name, without an extension, for one of a site's former keys."""
    return f"{site}.{hashlib.sha256(text.encode()).hexdigest()[:12]}"
