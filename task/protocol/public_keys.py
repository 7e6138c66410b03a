"""The public keys of sites, as files hold them."""

from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_public_key

from task.machine.regular import read_start

LONGEST_FILE = 4096  # bytes


class PublicKeyError(ValueError):
    """A text is not the public key of a site; the message says why."""


def read_key_file(path: Path) -> ec.EllipticCurvePublicKey:
    """Return the public key in a file.

    Raises:
        PublicKeyError: the file cannot be read, or holds something else.
    """
    try:
        content = read_start(path, LONGEST_FILE + 1)
    except OSError as error:
        raise PublicKeyError(f"cannot be read: {error.strerror}") from None
    if len(content) > LONGEST_FILE or content.strip().count(b"\n"):
        raise PublicKeyError("has more than one line")
    return loaded(content)


def loaded(content: bytes) -> ec.EllipticCurvePublicKey:
    """Return the public key in OpenSSH's format.

    Raises:
        PublicKeyError: it is not an ECDSA key on the curve P-384.
    """
    try:
        key = load_ssh_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        raise PublicKeyError("is not a public key") from None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP384R1):
        raise PublicKeyError("is not an ECDSA key on the curve P-384")
    return key
