"""Requests read from Flower's messages, and replies written as such."""

from typing import TypeVar

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict

from task.protocol.base import DATA, HEADER, JSON, Packed
from task.protocol.messages import Kind, Reply, Request

Asked = TypeVar("Asked", bound=Request)
Answer = TypeVar("Answer", bound=Reply)


def read_request(kind: Kind[Asked, Answer], message: Message) -> Asked:
    """Read a request.

    Raises:
        ProtocolError: the message does not have the agreed form.
    """
    return kind.request.unpack(Packed.of(message.content))


def write_reply(reply: Reply, message: Message) -> Message:
    """Write a reply to a message."""
    packed = reply.pack()
    content = RecordDict({HEADER: ConfigRecord({JSON: packed.header})})
    for name, data in packed.arrays.items():
        content[name] = ArrayRecord({DATA: Array("uint8", (len(data),), "bytes", data)})
    return Message(content, reply_to=message)
