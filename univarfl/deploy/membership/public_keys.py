"""The public keys of sites, as files hold them and as Flower lists them."""

import hashlib
from base64 import b64decode, b64encode
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from task.protocol.public_keys import loaded, read_key_file


def read_public_key(path: Path) -> str:
    """Return the public key in a file, without its comment.

    Raises:
        PublicKeyError: the file cannot be read, or holds something else.
    """
    return ssh_text(read_key_file(path))


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
