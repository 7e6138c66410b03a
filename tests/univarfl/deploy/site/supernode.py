"""Flower's own local API of a SuperNode, without a coordinator: messages are put in by hand."""

import hashlib
import threading
import time
from typing import Any, Self

import uvicorn
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.supercore.constant import TaskType
from flwr.supercore.fab import Fab
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode.main import create_app
from flwr.supernode.nodestate import NodeStateFactory

from univarfl.flower.programs import free_ports

RUN, NODE = 5, 7
SECRET = b"a secret of this test"
BUNDLE = b"the coordinator's bundle"
FAB_HASH = hashlib.sha256(BUNDLE).hexdigest()


class SuperNode:
    """The API on a port of this machine, and the state behind it.

    Args:
        node_config: the site's settings.
    """

    def __init__(self, node_config: dict[str, Any]) -> None:
        self._node_config = node_config
        objects = ObjectStoreFactory()
        states = NodeStateFactory(objects)
        self.state, self.objects = states.state(), objects.store()
        (port,) = free_ports(1)
        self.address = f"127.0.0.1:{port}"
        app = create_app(states, SECRET)
        self._server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
        self._thread = threading.Thread(target=self._server.run)

    def __enter__(self) -> Self:
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
        run = Run.create_empty(RUN)
        run.fab_hash = FAB_HASH
        context = Context(RUN, NODE, self._node_config, RecordDict(), {}, series_id=run.series_id)
        self.state.set_node_id(NODE)
        self.state.store_run(run)
        self.state.store_fab(Fab(FAB_HASH, BUNDLE, {}))
        self.state.set_run_series_context(run.series_id, context)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()

    def offer(
        self,
        message_type: str,
        content: RecordDict,
        damaged: bool = False,
        arrives_after: float = 0.0,
    ) -> str:
        """Put a message in as Flower's SuperNode does; return its id.

        Args:
            message_type: Flower's type of the message.
            content: its content.
            damaged: whether its parts are damaged, which no honest SuperLink would send.
            arrives_after: seconds until its parts are there.
        """
        TaskIdentity.task_id = TaskIdentity.run_id = RUN
        TaskIdentity.node_id = 1
        message = Message(content, NODE, message_type)
        message.metadata.__dict__["_message_id"] = message.object_id
        parts = {name: part.deflate() for name, part in get_all_nested_objects(message).items()}
        self.state.create_task(task_type=TaskType.CLIENT_APP, run_id=RUN, fab_hash=FAB_HASH)
        self.objects.preregister(RUN, get_object_tree(message))
        self.state.store_message(remove_content_from_message(message))

        def arrive() -> None:
            for name, part in parts.items():
                self.objects.put(name, part)
                if damaged:
                    store = self.objects.store  # type: ignore[attr-defined]
                    store[name].content = part[:20] + b"\0"

        if arrives_after:
            threading.Timer(arrives_after, arrive).start()
        else:
            arrive()
        return message.object_id

    def order(self, order: str, seconds: float = 0.0, arrives_after: float = 0.0) -> None:
        """Put in a message that tells a child of `faulty` what to do within a time."""
        fields = ConfigRecord({"do": order, "seconds": seconds})
        content = RecordDict({"order": fields})
        self.offer("query.order", content, arrives_after=arrives_after)

    def reply(self) -> Message:
        """Return the reply that was left."""
        (left,) = self.state.get_messages_legacy(is_reply=True)
        if left.has_error():
            return left
        name = left.metadata.message_id
        parts = [part.object_id for part in iterate_object_tree(self.objects.get_object_tree(name))]
        contents = {part: self.objects.get(part) or b"" for part in parts}
        reply = inflate_object_from_contents(name, contents)
        assert isinstance(reply, Message)
        return reply
