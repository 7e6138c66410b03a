"""Requests read from Flower's messages, and replies written as such."""

from typing import TypeVar

from flwr.app import ConfigRecord, Message, RecordDict

from client_app.node import signing_key, simulated
from task.errors import ProtocolError
from task.protocol.envelope import Kind, Reply, Request
from task.protocol.packed import DATA, HEADER, JSON, SIGNATURE, Packed, pieces_of, place_of
from task.protocol.signature import sign
from task.site import NodeConfig

MAX_SITE_HEADER = 2_000_000  # bytes of a request to a site, which names one client

Asked = TypeVar("Asked", bound=Request)
Answer = TypeVar("Answer", bound=Reply)


def read_request(kind: Kind[Asked, Answer], message: Message, node_config: NodeConfig) -> Asked:
    """Read a request.

    Raises:
        ProtocolError: the message does not have the agreed form, or is too large for a site.
    """
    packed = Packed.of(message.content)
    if not simulated(node_config) and len(packed.header) > MAX_SITE_HEADER:
        raise ProtocolError(f"its header is larger than {MAX_SITE_HEADER} bytes")
    return kind.request.unpack(packed)


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
        for number, piece in enumerate(pieces_of(data)):
            content[place_of(name, number)] = ConfigRecord({DATA: piece})
    return Message(content, reply_to=message)
