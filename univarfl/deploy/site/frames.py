"""Frames over a local socket: one byte for the kind, eight for the length, and the data."""

import socket
import struct
from typing import NamedTuple

HEAD = struct.Struct(">cQ")
PART = 1 << 20  # bytes that are read at a time

# from the worker to the child that answers one message
INPUT, OBJECT_ID, OBJECT, GO = b"i", b"d", b"o", b"g"
SECRETS = b"s"  # both ways: what the processes of one run hand on in memory
# from the child to the worker
FACTS, REPLY, FAILED, DONE = b"f", b"r", b"x", b"e"
# from the worker to the fork server, and its answers
FORK, PRELOAD = b"F", b"P"
READY, CHILD, ENDED = b"R", b"C", b"E"
DIGEST = 64  # the characters of an object's id, ahead of its bytes


class Frame(NamedTuple):
    """One frame."""

    kind: bytes
    data: bytes


def pack(kind: bytes, data: bytes = b"") -> bytes:
    """Return a frame's bytes."""
    return HEAD.pack(kind, len(data)) + data


def pack_object(object_id: str, content: bytes) -> bytes:
    """Return the bytes of a frame with an object of a message."""
    return pack(OBJECT, object_id.encode().ljust(DIGEST) + content)


def unpack_object(data: bytes) -> tuple[str, bytes]:
    """Return an object's id and its bytes from a frame's data."""
    return data[:DIGEST].decode().rstrip(), data[DIGEST:]


class Inbox:
    """The frames in a stream of bytes that arrives in parts."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, part: bytes) -> None:
        """Add the next bytes of the stream."""
        self._bytes += part

    @property
    def complete(self) -> bool:
        """Whether the next frame has arrived completely."""
        if len(self._bytes) < HEAD.size:
            return False
        return len(self._bytes) >= HEAD.size + int(HEAD.unpack_from(self._bytes)[1])

    def take(self) -> Frame | None:
        """Return the next frame, or None if it has not arrived completely."""
        if not self.complete:
            return None
        kind, length = HEAD.unpack_from(self._bytes)
        data = bytes(memoryview(self._bytes)[HEAD.size : HEAD.size + length])
        del self._bytes[: HEAD.size + length]
        return Frame(kind, data)


def receive(channel: socket.socket, inbox: Inbox) -> Frame | None:
    """Wait for the next frame; None if the other side has closed the channel."""
    while (frame := inbox.take()) is None:
        part = channel.recv(PART)
        if not part:
            return None
        inbox.add(part)
    return frame
