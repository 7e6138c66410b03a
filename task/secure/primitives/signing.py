"""Signatures by which participants recognise each other's statements."""

from functools import lru_cache

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
    load_der_public_key,
    load_pem_public_key,
)

from task.errors import ProtocolError

ALGORITHM = ec.ECDSA(utils.Prehashed(hashes.SHA256()))


def new_signing_key() -> ec.EllipticCurvePrivateKey:
    """Return a new key for a simulated participant; a site has its own."""
    return ec.generate_private_key(ec.SECP256R1())


def public_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return the public half of a key, in DER."""
    return in_der(key.public_key())


def in_der(key: PublicKeyTypes) -> bytes:
    """Return a public key in DER, the form in which keys are compared and hashed."""
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def der(pem: bytes) -> bytes:
    """Return a site's public key in DER, from the form in which Flower keeps it."""
    return in_der(load_pem_public_key(pem))


def private_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a private key in DER. It is secret."""
    return key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


def read_signing_key(content: bytes) -> ec.EllipticCurvePrivateKey:
    """Return the key that `private_bytes` wrote."""
    key = load_der_private_key(content, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


def sign_digest(key: ec.EllipticCurvePrivateKey, statement: bytes) -> bytes:
    """Return the signature of a SHA-256 hash."""
    return key.sign(statement, ALGORITHM)


def check_signature(public: bytes, statement: bytes, signature: bytes, who: str) -> None:
    """Refuse a statement that the owner of a key did not sign.

    Args:
        public: the key, in DER.
        statement: a SHA-256 hash.
        signature: the signature.
        who: the owner, for the error.

    Raises:
        ProtocolError: the key cannot be used, or the signature is wrong.
    """
    if not is_signed(public, statement, signature):
        raise ProtocolError(f"the statement of {who} is not signed with its own key")


@lru_cache(maxsize=4096)
def is_signed(public: bytes, statement: bytes, signature: bytes) -> bool:
    """Return whether a hash is signed with a key. Simulated participants share the answers."""
    try:
        key = load_der_public_key(public)
    except (ValueError, UnsupportedAlgorithm):
        return False
    if not isinstance(key, ec.EllipticCurvePublicKey):
        return False
    try:
        key.verify(signature, statement, ALGORITHM)
    except InvalidSignature:
        return False
    return True
