"""Streams of random 64-bit numbers that are added to an update, modulo 2^64."""

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

Vector = NDArray[np.int64]

CHUNK = 1 << 15  # numbers at a time; they stay in a processor's cache
VECTOR_ITEM_BYTES = 8
BLOCK = 16  # bytes of AES's counter, which starts at 0: no key serves two streams


def random_stream(key: bytes) -> CipherContext:
    """Return AES-256 in counter mode; encrypted zeros are random numbers that follow from `key`."""
    return Cipher(AES(key), CTR(bytes(BLOCK))).encryptor()


def add_stream(vector: Vector, key: bytes) -> None:
    """Add the stream of a key to a vector in place, modulo 2^64."""
    _apply(vector, key, np.add)


def subtract_stream(vector: Vector, key: bytes) -> None:
    """Subtract the stream of a key from a vector in place, modulo 2^64."""
    _apply(vector, key, np.subtract)


def _apply(vector: Vector, key: bytes, change: np.ufunc) -> None:
    if not vector.flags.c_contiguous or vector.dtype != np.int64:
        raise ValueError("a masked vector must be contiguous, int64")
    encryptor = random_stream(key)
    zeros = bytes(CHUNK * VECTOR_ITEM_BYTES)
    buffer = bytearray(len(zeros))
    stream = np.frombuffer(buffer, "<u8")
    numbers = vector.reshape(-1).view(np.uint64)
    for start in range(0, len(numbers), CHUNK):
        part = numbers[start : start + CHUNK]
        encryptor.update_into(zeros, buffer)
        change(part, stream[: len(part)], out=part)
