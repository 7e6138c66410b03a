"""A SuperNode's tasks, over its local API."""

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx

from univarfl.deploy.site.internals import (
    AcquireTaskRequest,
    ConfirmMessageReceivedRequest,
    Node,
    ObjectTree,
    PackedReply,
    PullAppMessagesRequest,
    PullObjectRequest,
    PullTaskInputRequest,
    PushAppMessagesRequest,
    PushObjectRequest,
    PushTaskOutputRequest,
    SendTaskHeartbeatRequest,
    SubStatus,
    TaskType,
    context_from_proto,
    iterate_object_tree,
    runtime_client,
    set_identity,
)

CALL_TRIES = 3
PAUSE_SECONDS = 0.05
# Flower stores a message at once after its task; one that was cancelled never comes.
MESSAGE_SECONDS = 60.0
HEARTBEAT_SECONDS = 10.0  # the SuperNode waits 30 s for the first, 60 s for the others

Answer = TypeVar("Answer")


class TaskGoneError(RuntimeError):
    """The SuperNode does not wait for the task's reply any more."""


class SecretRefusedError(RuntimeError):
    """The SuperNode does not give this worker any task."""


@dataclass(frozen=True)
class TaskInput:
    """What a task consists of, apart from the objects of its message.

    Attributes:
        input: the context and the run, as Flower's `PullTaskInputResponse` without the bundle.
        message: the message without its content, as Flower's message in bytes.
        object_id: the message's own object, which is also its id.
        bundle: the SHA-256 of the coordinator's bundle, which is not used.
        run_id: Flower's number of the run.
        node_config: the node's settings.
    """

    input: bytes
    message: bytes
    object_id: str
    bundle: str
    run_id: int
    node_config: dict[str, Any]


class RuntimeApi:
    """A SuperNode's local API.

    Args:
        address: HOST:PORT on this machine.
        secret: what the SuperNode was given as its SuperExec secret.
    """

    def __init__(self, address: str, secret: bytes) -> None:
        self._address = address
        self._client = runtime_client(address, secret=secret)

    def acquire(self) -> "TaskApi | None":
        """Claim the next task; None if there is none, or the SuperNode does not answer.

        Raises:
            SecretRefusedError: the SuperNode was given another secret.
        """
        try:
            answer = self._client.AcquireTask(
                AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP])
            )
        except httpx.HTTPStatusError as error:
            if error.response.status_code == httpx.codes.UNAUTHORIZED:
                raise SecretRefusedError("the SuperNode was given another secret") from None
            return None
        except httpx.TransportError:
            return None
        return TaskApi(self._address, answer.token) if answer.token else None


class TaskApi:
    """A claimed task at a SuperNode.

    The SuperNode offers a task before it has the whole message. If it cannot fetch the rest, it
    gives the task up, at the latest after two hours.

    Args:
        address: HOST:PORT on this machine.
        token: what the SuperNode gave for the task; secret.
    """

    def __init__(self, address: str, token: str) -> None:
        self._client = runtime_client(address, token=token)
        self._node, self._run_id, self._tree = Node(), 0, ObjectTree()
        self._next_heartbeat = 0.0

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def heartbeat(self) -> None:
        """Tell the SuperNode that the task is worked on, if it is time to.

        Raises:
            TaskGoneError: the SuperNode does not wait for it any more.
        """
        if time.monotonic() < self._next_heartbeat:
            return
        if not self._call(self._client.SendTaskHeartbeat, SendTaskHeartbeatRequest()).success:
            raise TaskGoneError("the SuperNode has ended the task")
        self._next_heartbeat = time.monotonic() + HEARTBEAT_SECONDS

    def pull_input(self) -> TaskInput:
        """Take the task, and drop the bundle that comes with it.

        Raises:
            TaskGoneError: the SuperNode does not wait for it any more, or has no message for it.
        """
        taken = self._call(self._client.PullTaskInput, PullTaskInputRequest())
        bundle = hashlib.sha256(taken.fab.content).hexdigest()
        taken.ClearField("fab")
        context = context_from_proto(taken.context)
        set_identity(taken)
        self._node, self._run_id = Node(node_id=taken.context.node_id), taken.run.run_id
        end = time.monotonic() + MESSAGE_SECONDS
        while not (
            pulled := self._call(self._client.PullMessages, PullAppMessagesRequest())
        ).messages_list:
            if time.monotonic() > end:
                raise TaskGoneError("the SuperNode has a task without a message")
            self._pause()
        self._tree = pulled.message_object_trees[0]
        return TaskInput(
            taken.SerializeToString(), pulled.messages_list[0].SerializeToString(),
            self._tree.object_id, bundle, self._run_id, dict(context.node_config),
        )  # fmt: skip

    def pull_objects(self) -> Iterator[tuple[str, bytes]]:
        """Yield the id and the bytes of each object of the message, once each.

        Raises:
            TaskGoneError: the SuperNode does not wait for it any more.
        """
        for object_id in dict.fromkeys(tree.object_id for tree in iterate_object_tree(self._tree)):
            request = PullObjectRequest(node=self._node, run_id=self._run_id, object_id=object_id)
            while not (found := self._call(self._client.PullObject, request)).object_available:
                if not found.object_found:
                    raise TaskGoneError("the SuperNode has lost a part of the message")
                self._pause()
            yield object_id, found.object_content
        self._confirm()

    def _confirm(self) -> None:
        """Let the SuperNode forget the message; only the first call does anything."""
        if self._tree.object_id:
            confirmed = ConfirmMessageReceivedRequest(
                node=self._node, run_id=self._run_id, message_object_id=self._tree.object_id
            )
            self._tree = ObjectTree()
            self._call(self._client.ConfirmMessageReceived, confirmed)

    def push(self, reply: PackedReply, failure: str = "") -> None:
        """Leave the reply with the SuperNode, which sends it to the coordinator.

        Args:
            reply: the reply.
            failure: why there is no better one; empty if the message was answered.

        Raises:
            TaskGoneError: the SuperNode does not wait for it any more.
        """
        self._confirm()
        request = PushAppMessagesRequest.FromString(reply.request)
        wanted = self._call(self._client.PushMessages, request)
        for object_id in wanted.objects_to_push:
            self._call(
                self._client.PushObject,
                PushObjectRequest(
                    node=self._node, run_id=self._run_id, object_id=object_id,
                    object_content=reply.objects[object_id], session_id=wanted.session_id,
                ),
            )  # fmt: skip
        status = SubStatus.FAILED if failure else SubStatus.COMPLETED
        output = PushTaskOutputRequest(sub_status=status, details=failure)
        self._call(self._client.PushTaskOutput, output)

    def _pause(self) -> None:
        """Wait a moment for a message that is still on its way to the SuperNode."""
        self.heartbeat()
        time.sleep(PAUSE_SECONDS)

    def _call(self, function: Callable[[Any], Answer], request: Any) -> Answer:
        """Call the SuperNode; a call that does not reach it is repeated."""
        for tried in range(1, CALL_TRIES + 1):
            try:
                return function(request)
            except httpx.HTTPStatusError as error:
                reason = f"the SuperNode refuses the task: {error.response.status_code}"
            except httpx.TransportError as error:
                reason = f"the SuperNode does not answer: {type(error).__name__}"
                if tried < CALL_TRIES:
                    time.sleep(tried * PAUSE_SECONDS)
                    continue
            break
        raise TaskGoneError(reason)
