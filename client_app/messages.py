"""Requests read from Flower's messages, and replies written as such."""

from typing import TypeVar

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict

from client_app.node import signing_key
from task.protocol.base import DATA, HEADER, JSON, SIGNATURE, Packed
from task.protocol.messages import Kind, Reply, Request
from task.protocol.signature import sign
from task.site import NodeConfig

Asked = TypeVar("Asked", bound=Request)
Answer = TypeVar("Answer", bound=Reply)


def read_request(kind: Kind[Asked, Answer], message: Message) -> Asked:
    """Read a request.

    Raises:
        ProtocolError: the message does not have the agreed form.
    """
    return kind.request.unpack(Packed.of(message.content))


def write_reply(
    kind: Kind[Asked, Answer], reply: Answer, message: Message, node_config: NodeConfig
) -> Message:
    """Write a reply to a message; a site signs it.

    Raises:
        SiteError: this is a site, and its key cannot be used.
    """
    packed = reply.pack()
    header = ConfigRecord({JSON: packed.header})
    key = signing_key(node_config)
    if key is not None:
        header[SIGNATURE] = sign(key, kind.message_type, packed)
    content = RecordDict({HEADER: header})
    for name, data in packed.arrays.items():
        content[name] = ArrayRecord({DATA: Array("uint8", (len(data),), "bytes", data)})
    return Message(content, reply_to=message)
