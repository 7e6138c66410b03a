"""The tables of Flower's SuperLink, with a run and messages to sites."""

from pathlib import Path

from flwr.app import Array, ArrayRecord, Message, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.server.superlink.linkstate.sql_linkstate import SqlLinkState
from flwr.supercore.constant import NOOP_FEDERATION_ID
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.object_store.sql_object_store import SqlObjectStore
from flwr.superlink.federation.noop_federation_manager import NoOpFederationManager

from univarfl.engines.local.internals import set_message_id, set_task_identity


class SuperLink:
    """Flower's own tables with a run, changed as a SuperLink changes them."""

    def __init__(self, database: Path) -> None:
        store = SqlObjectStore(str(database))
        store.initialize()
        self.state = SqlLinkState(str(database), NoOpFederationManager(), store)
        self.state.initialize()
        self.run_id = self.state.create_run(
            None, None, "", {}, NOOP_FEDERATION_ID, None, None, "flwr-serverapp"
        )
        self.nodes: dict[bytes, int] = {}
        set_task_identity(self.run_id)

    def add(self, key: bytes) -> None:
        """Register a site and let it join."""
        self.nodes[key] = self.state.create_node("owner", "owner", key, 30)
        self.state.activate_node(self.nodes[key], 30)

    def push(self, key: bytes, ttl: float = 1000.0) -> list[str]:
        """Announce a message to a site; return the ids of its parts."""
        record = ArrayRecord({"a": Array("uint8", (3,), "bytes", b"abc")})
        message = Message(RecordDict({"weights": record}), self.nodes[key], "train", ttl=ttl)
        with no_object_id_recompute():
            set_message_id(message, message.object_id)
            found = get_all_nested_objects(message)
            self.parts = {object_id: value.deflate() for object_id, value in found.items()}
            tree = get_object_tree(message)
        self.session = self.state.start_session(self.run_id)
        stored, missing = self.state.store_message_and_object_tree(
            remove_content_from_message(message), tree, self.session
        )
        assert stored
        return missing

    def send(self, object_id: str) -> None:
        """Store one part of the message that was announced last."""
        content = self.parts[object_id]
        assert self.state.store_object(self.run_id, self.session, object_id, content)
