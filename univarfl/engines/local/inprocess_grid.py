"""A Flower grid in one process: it calls the ClientApp directly.

It serves fast tests, debuggers, and one GPU without Ray.
"""

import copy
from collections.abc import Iterable
from uuid import uuid4

from flwr.app import Message
from flwr.clientapp import ClientApp

from univarfl.engines.local.grid import LocalGrid
from univarfl.engines.local.internals import set_message_id
from univarfl.engines.local.supernode import SuperNode, node_context


class InProcessGrid(LocalGrid):
    """A grid of SuperNodes in this process, which handle one message at a time.

    A message is handled when its reply is pulled; nothing runs in the background.

    Args:
        client_app: handles the messages.
        supernodes: the number of SuperNodes.
    """

    def __init__(self, client_app: ClientApp, supernodes: int) -> None:
        super().__init__(supernodes)
        self._supernodes = {
            node_id: SuperNode(client_app, node_context(index, supernodes, in_server=True))
            for index, node_id in enumerate(self._nodes)
        }

    def _work(self, wanted: Iterable[str]) -> None:
        """Handle the first of the messages."""
        asked = set(wanted)
        waiting = next((message_id for message_id in self._sent if message_id in asked), None)
        if waiting is not None:
            message = self._sent.pop(waiting)
            reply = copy.deepcopy(self._handle(message))
            set_message_id(reply, str(uuid4()))
            self._answered[waiting] = reply

    def _handle(self, message: Message) -> Message:
        return self._supernodes[message.metadata.dst_node_id].handle(message)
