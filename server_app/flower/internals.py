"""Everything that `server_app` uses of Flower and that Flower does not document.

Flower's public packages are `flwr.app`, `flwr.clientapp` and `flwr.serverapp`. No other module of
`server_app` imports from anywhere else in Flower. ``tests/server_app/flower/test_internals.py``
fails and names the interface when a new version of Flower changes one of these:

- ``flwr.common.constant``: the error codes of `flwr.app.Error`, which has no public names for them,
  and the keys and node id that Flower's simulation gives each node.
- ``flwr.supercore.run.Run``: a grid must return one as its ``run``.
- ``flwr.supercore.task_identity.TaskIdentity``: `flwr.app.Message` reads its sender from it.
- ``Message.metadata.__dict__["_message_id"]``: a grid sets it, and there is no public setter.
- ``create_message_error_unavailable_ins_message``: how Flower answers a pull for an unknown id.

`server_app.flower.output` has the texts that Flower's programs print and that we rely on, and
`server_app.flower.programs` the environment variables that they read.
"""

from flwr.app import Message
from flwr.common.constant import NUM_PARTITIONS_KEY, PARTITION_ID_KEY, SUPERLINK_NODE_ID, ErrorCode
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

__all__ = [
    "NUM_PARTITIONS_KEY",
    "PARTITION_ID_KEY",
    "ErrorCode",
    "Run",
    "set_message_id",
    "set_task_identity",
    "unavailable_reply",
]


def set_task_identity(run_id: int) -> None:
    """Make the server the sender of the messages that this process creates."""
    TaskIdentity.run_id = run_id
    TaskIdentity.task_id = run_id
    TaskIdentity.node_id = SUPERLINK_NODE_ID


def set_message_id(message: Message, message_id: str) -> None:
    """Set a message's id, as Flower's own grids do when it is sent."""
    message.metadata.__dict__["_message_id"] = message_id


def unavailable_reply(message_id: str, run_id: int) -> Message:
    """Return Flower's error reply for a message that was pulled before or never sent."""
    # Imported here because it imports a database layer, which takes a second and a half.
    from flwr.server.superlink.linkstate.utils import (  # noqa: PLC0415
        create_message_error_unavailable_ins_message,
    )

    return create_message_error_unavailable_ins_message(message_id, run_id)
