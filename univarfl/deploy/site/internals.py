"""What the resident worker uses of Flower and Flower does not document.

A SuperNode that is started with ``--isolation process`` leaves its tasks to another program: it
serves a local HTTP API, where that program claims a task, takes the message and leaves the reply.
Flower's own program for it, ``flower-superexec``, installs the coordinator's bundle and runs the
code in it. This module speaks the same API and uses no bundle.

``tests/univarfl/deploy/site/test_worker.py`` fails when a new version of Flower changes one.
"""

from dataclasses import dataclass, field

from flwr.app import Context, Error, Message
from flwr.app.message import remove_content_from_message
from flwr.common.constant import ErrorCode, SubStatus
from flwr.common.serde import context_from_proto, message_from_proto, message_to_proto
from flwr.proto.message_pb2 import (
    ConfirmMessageReceivedRequest,
    ObjectTree,
    PullObjectRequest,
    PushObjectRequest,
)
from flwr.proto.message_pb2 import (
    Message as ProtoMessage,
)
from flwr.proto.node_pb2 import Node
from flwr.proto.runtime_pb2 import (
    AcquireTaskRequest,
    PullAppMessagesRequest,
    PullTaskInputRequest,
    PullTaskInputResponse,
    PushAppMessagesRequest,
    PushTaskOutputRequest,
    SendTaskHeartbeatRequest,
)
from flwr.supercore.constant import TaskType
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_head_values_from_object_content,
    get_object_tree,
    iterate_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity

__all__ = [
    "AcquireTaskRequest",
    "ConfirmMessageReceivedRequest",
    "Node",
    "ObjectTree",
    "PullAppMessagesRequest",
    "PullObjectRequest",
    "PullTaskInputRequest",
    "PushAppMessagesRequest",
    "PushObjectRequest",
    "PushTaskOutputRequest",
    "SendTaskHeartbeatRequest",
    "SubStatus",
    "TaskType",
    "context_from_proto",
    "iterate_object_tree",
]

ACQUIRE = "/flwr.proto.Runtime/AcquireTask"  # the call that is signed with the secret
COMPONENT = "flwr-clientapp"
CALL_SECONDS = 20.0
KINDS_OF_OBJECTS = {"Message", "RecordDict", "ConfigRecord"}  # others can grow when they are built


@dataclass
class PackedReply:
    """A reply in bytes.

    Attributes:
        request: Flower's `PushAppMessagesRequest`, with the message but not its content.
        objects: the objects of the content, by their ids.
    """

    request: bytes
    objects: dict[str, bytes] = field(default_factory=dict)


def runtime_client(address: str, secret: bytes = b"", token: str = "") -> RuntimeHttpClient:
    """Return a connection to the local API of a SuperNode on this machine.

    Args:
        address: HOST:PORT.
        secret: what the SuperNode was given as its SuperExec secret, to claim tasks.
        token: what it gave for a claimed task, to work on that.
    """
    signed = SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods={ACQUIRE})
    version = RuntimeVersionHttpInterceptor(component_name=COMPONENT)
    return RuntimeHttpClient(
        f"http://{address}", verify=False, timeout=CALL_SECONDS,
        interceptors=[version, RuntimeTokenHttpInterceptor(token) if token else signed],
    )  # fmt: skip


def set_identity(task: PullTaskInputResponse) -> None:
    """Make this process the sender of a task's reply, as Flower's messages need it."""
    TaskIdentity.task_id = task.task_id
    TaskIdentity.run_id = task.run.run_id
    TaskIdentity.node_id = task.context.node_id


def read_task(
    task_input: bytes, object_id: str, objects: dict[str, bytes]
) -> tuple[Message, Context]:
    """Build the message and the context of a task from their bytes.

    Raises:
        Exception: they cannot be read.
    """
    taken = PullTaskInputResponse.FromString(task_input)
    set_identity(taken)
    for content in objects.values():
        kind, _, _ = get_object_head_values_from_object_content(content)
        if kind not in KINDS_OF_OBJECTS:
            raise TypeError(f"the message holds an object of type {kind[:40]!r}")
    message = inflate_object_from_contents(object_id, objects)
    if not isinstance(message, Message):
        raise TypeError("the message is another kind of object")
    message.metadata.__dict__["_message_id"] = object_id
    return message, context_from_proto(taken.context)


def pack_reply(message: Message) -> PackedReply:
    """Write a reply in bytes."""
    message.metadata.__dict__["_message_id"] = message.object_id
    proto = message_to_proto(remove_content_from_message(message))
    with no_object_id_recompute():
        request = PushAppMessagesRequest(
            messages_list=[proto], message_object_trees=[get_object_tree(message)]
        )
        objects = get_all_nested_objects(message)
        contents = {name: objects[name].deflate() for name in objects}
    return PackedReply(request.SerializeToString(), contents)


def error_reply(message: Message, reason: str) -> PackedReply:
    """Write a reply that says why a message was not answered."""
    error = Error(code=ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason=reason)
    return pack_reply(Message(error, reply_to=message))


def read_head(message: bytes) -> Message:
    """Read a message without its content, to reply to it."""
    return message_from_proto(ProtoMessage.FromString(message))
