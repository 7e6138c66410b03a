"""A SuperNode of our own engine: it calls the ClientApp, and keeps its state."""

import copy
import logging

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp

from server_app.flower.internals import ErrorCode
from task.site import IN_PROCESS, NUM_PARTITIONS, PARTITION_ID
from univarfl.engines.local.grid import FIRST_NODE_ID, RUN_ID


def node_context(index: int, supernodes: int, *, in_server: bool) -> Context:
    """Return the context of a simulated SuperNode.

    Args:
        index: its number, from 0.
        supernodes: how many there are.
        in_server: whether it shares the process of the server.
    """
    return Context(
        run_id=RUN_ID,
        node_id=FIRST_NODE_ID + index,
        node_config={
            PARTITION_ID: index,
            NUM_PARTITIONS: supernodes,
            IN_PROCESS: in_server,
        },
        state=RecordDict(),
        run_config={},
    )


class SuperNode:
    """Handles messages one after another; the state of a call that fails is dropped.

    Args:
        client_app: handles the messages.
        context: the node's.

    Attributes:
        context: the same, with the state that the last call has left.
    """

    def __init__(self, client_app: ClientApp, context: Context) -> None:
        self._client_app = client_app
        self.context = context

    def handle(self, message: Message) -> Message:
        """Return the reply to a message: an error reply if the ClientApp raises an exception."""
        context = copy.deepcopy(self.context)
        try:
            reply = self._client_app(message, context)
        except Exception as error:
            node_id = message.metadata.dst_node_id
            logging.getLogger("univarfl.client").exception("SuperNode %d failed", node_id)
            reason = f"{type(error).__name__}: {error}"
            return Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason), reply_to=message)
        self.context = context
        return reply
