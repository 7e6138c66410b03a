"""Messages between two participants that the coordinator carries and cannot read or change."""

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from task.errors import ProtocolError

NONCE = bytes(12)  # each key seals one message only


def seal(key: bytes, content: bytes, about: bytes) -> bytes:
    """Encrypt a message with ChaCha20-Poly1305.

    Args:
        key: of one message only, in one direction.
        content: the message.
        about: what the message belongs to; it is authenticated and not sent.
    """
    return ChaCha20Poly1305(key).encrypt(NONCE, content, about)


def unseal(key: bytes, sealed: bytes, about: bytes) -> bytes:
    """Return the message that was sealed.

    Raises:
        ProtocolError: it was changed, or sealed with another key or for something else.
    """
    try:
        return ChaCha20Poly1305(key).decrypt(NONCE, sealed, about)
    except InvalidTag:
        raise ProtocolError(
            "its sealed shares were changed, or are not for this participant"
        ) from None
