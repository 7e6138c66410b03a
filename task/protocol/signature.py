"""The signature of a reply, by which the server knows which site wrote it.

A site signs the SHA-256 hash of a fixed text, the kind of message, the header and each array's name
and bytes; the length of each part precedes it. The header has the request's nonce, run, round and
attempt, so a signed reply answers one request only.
"""

import hashlib

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.serialization import load_pem_public_key, load_ssh_private_key

from task.errors import ProtocolError
from task.protocol.packed import Packed

CONTEXT = b"univarfl: a site's reply, version 1"  # no other signature covers this text
ALGORITHM = ec.ECDSA(utils.Prehashed(hashes.SHA256()))


def reply_hash(kind: str, packed: Packed) -> bytes:
    """Return the hash that a site signs.

    Args:
        kind: the type of the message, such as ``train``.
        packed: the reply.
    """
    digest = hashlib.sha256()
    parts = [CONTEXT, kind.encode(), packed.header]
    for name, data in sorted(packed.arrays.items()):
        parts += [name.encode(), data]
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


def sign(key: ec.EllipticCurvePrivateKey, kind: str, packed: Packed) -> bytes:
    """Return a site's signature of a reply."""
    return key.sign(reply_hash(kind, packed), ALGORITHM)


def verify(public_key: bytes, kind: str, packed: Packed) -> None:
    """Refuse a reply that the owner of a key did not sign.

    Args:
        public_key: the key, as PEM.
        kind: the type of the message.
        packed: the reply, with its signature.

    Raises:
        ProtocolError: the signature is missing or wrong, or the key cannot be used.
    """
    if not packed.signature:
        raise ProtocolError("it is not signed")
    try:
        key = load_pem_public_key(public_key)
    except (ValueError, UnsupportedAlgorithm):
        raise ProtocolError("Flower has no usable key of its SuperNode") from None
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise ProtocolError("the key of its SuperNode is not an elliptic-curve key")
    try:
        key.verify(packed.signature, reply_hash(kind, packed), ALGORITHM)
    except InvalidSignature:
        raise ProtocolError("it is not signed with the key of its SuperNode") from None


def read_private_key(content: bytes) -> ec.EllipticCurvePrivateKey:
    """Return the private key in the content of a site's key file.

    Raises:
        ValueError: it is not an elliptic-curve key in OpenSSH's format, or is encrypted.
    """
    try:
        key = load_ssh_private_key(content, None)
    except (TypeError, UnsupportedAlgorithm) as error:
        raise ValueError(str(error)) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("it is not an elliptic-curve key")
    return key
