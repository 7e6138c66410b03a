"""Announcements of messages. A site may send only replies, and only to the SuperLink.

Flower's route takes any message: also one to another site, which would look like the coordinator's,
and one to the coordinator that answers nothing, whose missing parts hold up the answers of others.
"""

from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.proto.fleet_pb2 import PushMessagesRequest
from google.protobuf.message import DecodeError

from univarfl.deploy.gate.requests import RefusedError


def require_reply(body: bytes) -> None:
    """Refuse an announcement of anything but one reply of its sender to the SuperLink.

    Flower itself checks that the sender's node belongs to the key that signed the request.

    Args:
        body: of a request to push messages, at most `requests.LARGEST_ANNOUNCEMENT` bytes.

    Raises:
        RefusedError: it is another one, or cannot be read.
    """
    try:
        request = PushMessagesRequest.FromString(body)
    except DecodeError:
        raise RefusedError(400, "the announcement of a message cannot be read") from None
    if len(request.messages_list) != 1 or len(request.message_object_trees) != 1:
        raise RefusedError(400, "an announcement has one message and one tree of its parts")
    told = request.messages_list[0].metadata
    if not told.reply_to_message_id or told.dst_node_id != SUPERLINK_NODE_ID:
        raise RefusedError(403, "a site may send replies to the SuperLink alone")
    if told.src_node_id != request.node.node_id:
        raise RefusedError(403, "the message names another sender than the request")
    if request.message_object_trees[0].object_id != told.message_id:
        raise RefusedError(400, "the tree of parts belongs to another message")
