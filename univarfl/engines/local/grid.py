"""A Flower grid whose SuperNodes this process starts itself, without SuperLink and Ray.

It behaves as Flower's grid does under Ray (a contract test compares them): messages are copied, a
client's exception becomes an error reply, a node's state lasts until a message fails, and a late
reply waits for a later pull.
"""

import copy
import logging
import time
from abc import abstractmethod
from collections.abc import Iterable
from uuid import uuid4

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from server_app.flower.internals import unavailable_reply
from univarfl.engines.local.internals import Run, set_message_id, set_task_identity

RUN_ID = 1
FIRST_NODE_ID = 1000

logger = logging.getLogger("univarfl")


class LocalGrid(Grid):
    """A grid of SuperNodes that belong to this process.

    Args:
        supernodes: the number of SuperNodes.
    """

    def __init__(self, supernodes: int) -> None:
        set_task_identity(RUN_ID)
        self._run = Run.create_empty(RUN_ID)
        self._nodes = range(FIRST_NODE_ID, FIRST_NODE_ID + supernodes)
        self._sent: dict[str, Message] = {}
        self._answered: dict[str, Message] = {}

    @abstractmethod
    def _work(self, wanted: Iterable[str]) -> None:
        """Get a reply to one of these messages, if that is possible now.

        Args:
            wanted: ids of messages, none of which is answered.
        """

    def close(self) -> None:
        """End what the SuperNodes run in."""

    def set_run(self, run: Run) -> None:
        """Set the run; Flower calls this before a ServerApp starts."""
        self._run = run

    @property
    def run(self) -> Run:
        """Return the run."""
        return self._run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """Create a message; deprecated by Flower in favour of `Message` itself."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """Return the SuperNodes' ids."""
        return set(self._nodes)

    def _deliver(self, message_id: str, message: Message) -> None:
        """Keep a copy of a message for its SuperNode."""
        self._sent[message_id] = copy.deepcopy(message)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Store copies of the messages; return the ids of those whose SuperNode exists."""
        accepted = []
        for message in messages:
            message_id = str(uuid4())
            set_message_id(message, message_id)
            if message.metadata.dst_node_id in self._nodes:
                self._deliver(message_id, message)
                accepted.append(message_id)
            else:
                logger.error("there is no SuperNode %d", message.metadata.dst_node_id)
        return accepted

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies that are ready; see `_work` for what happens if none is.

        For an unknown message id an error reply is returned, as by Flower.
        """
        wanted = set(message_ids)
        if not wanted & self._answered.keys():
            self._work(wanted)
        gone = wanted - self._sent.keys() - self._answered.keys()
        replies = [self._answered.pop(message_id) for message_id in wanted & self._answered.keys()]
        return replies + [unavailable_reply(message_id, RUN_ID) for message_id in gone]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Push messages, then pull until every reply has arrived or the timeout has passed."""
        deadline = time.monotonic() + (float("inf") if timeout is None else timeout)
        waiting = set(self.push_messages(messages))
        replies: list[Message] = []
        while waiting and time.monotonic() < deadline:
            arrived = list(self.pull_messages(waiting))
            if time.monotonic() >= deadline:
                self._answered |= {reply.metadata.reply_to_message_id: reply for reply in arrived}
                break
            replies += arrived
            waiting -= {reply.metadata.reply_to_message_id for reply in arrived}
        return replies
