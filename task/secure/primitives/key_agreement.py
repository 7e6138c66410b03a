"""Key pairs that live for one attempt at a round, and the secrets that two of them agree on."""

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from task.errors import ProtocolError

KEY_BYTES = 32
FIELD = 2**255 - 19  # of X25519's numbers


class KeyPair:
    """An X25519 key pair. It shows its public half only.

    Args:
        private: the private key; 32 bytes from the operating system's generator if left out.

    Attributes:
        public: the public key.
    """

    def __init__(self, private: bytes | None = None) -> None:
        self._key = (
            X25519PrivateKey.generate()
            if private is None
            else X25519PrivateKey.from_private_bytes(private)
        )
        self.public = self._key.public_key().public_bytes_raw()

    def private_bytes(self) -> bytes:
        """Return the private key, to share it among the participants. It is secret."""
        return self._key.private_bytes_raw()

    def agree(self, public: bytes, salt: bytes, purpose: str) -> bytes:
        """Return the secret key that both owners derive from their own key and the other's.

        Args:
            public: the other's public key.
            salt: what the key is bound to; a hash that both have computed.
            purpose: what the key is for; each purpose has a key of its own.

        Raises:
            ProtocolError: it is no usable public key.
        """
        try:
            shared = self._key.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError:
            raise ProtocolError("a public key cannot be used") from None
        return derive(shared, salt, purpose)


def require_usable(public: bytes) -> None:
    """Refuse a public key with which nobody can agree on a secret, or that has a second form.

    Raises:
        ProtocolError: it is one of the few points of X25519 whose secret is zero for everybody, or
            not in its one form.
    """
    require_canonical(public)
    KeyPair().agree(public, b"", "")


def require_canonical(public: bytes) -> None:
    """Refuse a public key that is another form of the same number.

    X25519 ignores the highest bit, and takes numbers modulo `FIELD` (RFC 7748, section 5). So equal
    keys are recognised only if each has one form.

    Raises:
        ProtocolError: it is not below `FIELD`.
    """
    if int.from_bytes(public, "little") >= FIELD:
        raise ProtocolError("a public key is not in its shortest form")


def derive(secret: bytes, salt: bytes, purpose: str) -> bytes:
    """Return a key derived from a secret by HKDF-SHA256.

    Args:
        secret: the secret.
        salt: what the key is bound to.
        purpose: what the key is for.
    """
    return HKDF(SHA256(), KEY_BYTES, salt, purpose.encode()).derive(secret)
