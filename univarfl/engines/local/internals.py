"""What the engines use of Flower and Flower does not document.

``tests/server_app/flower/test_internals.py`` names what a new version of Flower has changed:

- ``flwr.supercore.run.Run``: a grid must return one as its ``run``.
- ``flwr.supercore.task_identity.TaskIdentity``: `flwr.app.Message` reads its sender from it.
- ``Message.metadata.__dict__["_message_id"]``: a grid sets it, and there is no public setter.
"""

from flwr.app import Message
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

__all__ = ["Run", "set_message_id", "set_task_identity"]


def set_task_identity(run_id: int) -> None:
    """Make the server the sender of the messages that this process creates."""
    TaskIdentity.run_id = run_id
    TaskIdentity.task_id = run_id
    TaskIdentity.node_id = SUPERLINK_NODE_ID


def set_message_id(message: Message, message_id: str) -> None:
    """Set a message's id, as Flower's own grids do when it is sent."""
    message.metadata.__dict__["_message_id"] = message_id
