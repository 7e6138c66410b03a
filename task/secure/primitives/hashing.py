"""Hashes of several parts, such that different parts never give the same hash."""

import hashlib

CONTEXT = "univarfl: secure aggregation, version 2"  # no other hash or signature covers this text

Part = bytes | str | int | float


def digest(label: str, *parts: Part) -> bytes:
    """Return the SHA-256 of a label and parts; the type and the length of each precede it.

    Args:
        label: the purpose of the hash.
        parts: the parts, in an order that the purpose defines.
    """
    hashed = hashlib.sha256()
    for part in (CONTEXT, label, *parts):
        kind, data = encoded(part)
        hashed.update(kind + len(data).to_bytes(8, "big"))
        hashed.update(data)
    return hashed.digest()


def encoded(part: Part) -> tuple[bytes, bytes]:
    """Return a letter for the type of a part, and its bytes."""
    if isinstance(part, bytes):
        return b"b", part
    if isinstance(part, str):
        return b"s", part.encode()
    if isinstance(part, int):
        return b"i", str(part).encode()
    return b"f", part.hex().encode()
