"""Everything in one process: a Flower grid that calls the ClientApp directly.

For tests in milliseconds, for a debugger, and for one GPU without Ray. It keeps to what Flower's
own grid does under Ray (a contract test compares the two): what is passed is copied, a client's
exception comes back as an error reply, state survives between messages but not a failed one, and
a reply that is late stays behind for a later pull.
"""

import copy
import logging
import time
from collections.abc import Iterable
from uuid import uuid4

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import NUM_PARTITIONS_KEY, PARTITION_ID_KEY, SUPERLINK_NODE_ID, ErrorCode
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

from task import wire

RUN_ID = 1
FIRST_NODE_ID = 1000

logger = logging.getLogger("univarfl")


class InProcessGrid(Grid):
    """A grid of SuperNodes that all live in this process and work one at a time.

    A message is handled when somebody pulls for it; nothing runs in the background.

    Args:
        client_app: what handles the messages.
        supernodes: how many there are.
    """

    def __init__(self, client_app: ClientApp, supernodes: int) -> None:
        TaskIdentity.run_id = RUN_ID
        TaskIdentity.task_id = RUN_ID
        TaskIdentity.node_id = SUPERLINK_NODE_ID
        self._client_app = client_app
        self._run = Run.create_empty(RUN_ID)
        self._contexts = {
            FIRST_NODE_ID + index: Context(
                run_id=RUN_ID,
                node_id=FIRST_NODE_ID + index,
                node_config={
                    PARTITION_ID_KEY: index,
                    NUM_PARTITIONS_KEY: supernodes,
                    wire.IN_PROCESS: True,
                },
                state=RecordDict(),
                run_config={},
            )
            for index in range(supernodes)
        }
        self._sent: dict[str, Message] = {}
        self._answered: dict[str, Message] = {}

    def set_run(self, run: Run) -> None:
        """Set the run, as Flower does before it calls a ServerApp."""
        self._run = run

    @property
    def run(self) -> Run:
        """The run."""
        return self._run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """Make a message; Flower deprecates this in favour of the constructor."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """The SuperNodes' ids."""
        return set(self._contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Accept copies of the messages; the ids of those whose SuperNode exists."""
        accepted = []
        for message in messages:
            message_id = str(uuid4())
            message.metadata.__dict__["_message_id"] = message_id
            if message.metadata.dst_node_id in self._contexts:
                self._sent[message_id] = copy.deepcopy(message)
                accepted.append(message_id)
            else:
                logger.error("no SuperNode %d", message.metadata.dst_node_id)
        return accepted

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """The replies that are there; when there are none, the first message waiting is handled.

        A message that is not known any more brings an error reply, as it does in Flower.
        """
        wanted = set(message_ids)
        if not wanted & self._answered.keys():
            waiting = next((message_id for message_id in self._sent if message_id in wanted), None)
            if waiting is not None:
                self._answered[waiting] = self._handle(self._sent.pop(waiting))
        gone = wanted - self._sent.keys() - self._answered.keys()
        replies = [self._answered.pop(message_id) for message_id in wanted & self._answered.keys()]
        return replies + [gone_reply(message_id) for message_id in gone]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Push, then pull until every reply is there or the time is up."""
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
        reply.metadata.__dict__["_message_id"] = str(uuid4())
        return reply


def gone_reply(message_id: str) -> Message:
    """Flower's own error reply for a message that was pulled before or was never sent."""
    # Imported here because it brings a database layer with it, a second and a half of start-up.
    from flwr.server.superlink.linkstate.utils import (  # noqa: PLC0415
        create_message_error_unavailable_ins_message,
    )

    return create_message_error_unavailable_ins_message(message_id, RUN_ID)
