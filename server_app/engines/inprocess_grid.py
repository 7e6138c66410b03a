"""A Flower grid in one process: it calls the ClientApp directly.

It serves fast tests, debuggers, and one GPU without Ray. It behaves as Flower's grid does under Ray
(a contract test compares the two): messages are copied, a client's exception becomes an error
reply, a node's state lasts until a message fails, and a late reply waits for a later pull.
"""

import copy
import logging
import time
from collections.abc import Iterable
from uuid import uuid4

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from server_app.flower.internals import (
    NUM_PARTITIONS_KEY,
    PARTITION_ID_KEY,
    ErrorCode,
    Run,
    set_message_id,
    set_task_identity,
    unavailable_reply,
)
from task.protocol.messages import IN_PROCESS

RUN_ID = 1
FIRST_NODE_ID = 1000

logger = logging.getLogger("univarfl")


class InProcessGrid(Grid):
    """A grid of SuperNodes in this process, which handle one message at a time.

    A message is handled when its reply is pulled; nothing runs in the background.

    Args:
        client_app: handles the messages.
        supernodes: the number of SuperNodes.
    """

    def __init__(self, client_app: ClientApp, supernodes: int) -> None:
        set_task_identity(RUN_ID)
        self._client_app = client_app
        self._run = Run.create_empty(RUN_ID)
        self._contexts = {
            FIRST_NODE_ID + index: Context(
                run_id=RUN_ID,
                node_id=FIRST_NODE_ID + index,
                node_config={
                    PARTITION_ID_KEY: index,
                    NUM_PARTITIONS_KEY: supernodes,
                    IN_PROCESS: True,
                },
                state=RecordDict(),
                run_config={},
            )
            for index in range(supernodes)
        }
        self._sent: dict[str, Message] = {}
        self._answered: dict[str, Message] = {}

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
        return set(self._contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Store copies of the messages; return the ids of those whose SuperNode exists."""
        accepted = []
        for message in messages:
            message_id = str(uuid4())
            set_message_id(message, message_id)
            if message.metadata.dst_node_id in self._contexts:
                self._sent[message_id] = copy.deepcopy(message)
                accepted.append(message_id)
            else:
                logger.error("there is no SuperNode %d", message.metadata.dst_node_id)
        return accepted

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies that are ready; if none is, handle the first waiting message.

        For an unknown message id an error reply is returned, as by Flower.
        """
        wanted = set(message_ids)
        if not wanted & self._answered.keys():
            waiting = next((message_id for message_id in self._sent if message_id in wanted), None)
            if waiting is not None:
                self._answered[waiting] = self._handle(self._sent.pop(waiting))
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

    def _handle(self, message: Message) -> Message:
        node_id = message.metadata.dst_node_id
        context = copy.deepcopy(self._contexts[node_id])
        try:
            reply = copy.deepcopy(self._client_app(message, context))
        except Exception as error:
            logging.getLogger("univarfl.client").exception("SuperNode %d failed", node_id)
            reason = f"{type(error).__name__}: {error}"
            reply = Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason), reply_to=message)
        else:
            self._contexts[node_id] = context
        set_message_id(reply, str(uuid4()))
        return reply
