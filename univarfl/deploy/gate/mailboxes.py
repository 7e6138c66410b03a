"""Tells for which sites the SuperLink has a message, for far less than a request costs it."""

import contextlib
import sqlite3
import time
from pathlib import Path

# A message that can be delivered, and all of whose parts are there. A SuperNode that receives it
# earlier asks for the parts that are still on their way 1 s, 2 s, 4 s and so on later.
COMPLETE_MESSAGE = """
    WITH RECURSIVE waiting (message_id) AS (
        SELECT message_ins.message_id
        FROM message_ins JOIN node ON node.node_id = message_ins.dst_node_id
        WHERE node.public_key = ? AND message_ins.delivered_at = ''
            AND message_ins.created_at + message_ins.ttl > ?
    ), parts (message_id, object_id) AS (
        SELECT message_id, message_id FROM waiting
        UNION
        SELECT parts.message_id, object_children.child_id
        FROM parts JOIN object_children ON object_children.parent_id = parts.object_id
    )
    SELECT EXISTS (
        SELECT 1 FROM waiting WHERE NOT EXISTS (
            SELECT 1 FROM parts JOIN objects ON objects.object_id = parts.object_id
            WHERE parts.message_id = waiting.message_id AND NOT objects.is_available
        )
    )
"""


class Mailboxes:
    """The messages in the SuperLink's database, which is read and never written.

    ``tests/univarfl/deploy/gate/test_mailboxes.py`` fails when a new version of Flower changes
    the tables.

    Args:
        database: the SuperLink's database.
    """

    def __init__(self, database: Path) -> None:
        self._database = database
        self._connection: sqlite3.Connection | None = None
        self._version = -1
        self._known: dict[bytes, bool] = {}

    def has_message(self, key: bytes) -> bool:
        """Whether a complete message waits for a site; also if the database cannot be read.

        Args:
            key: the site's public key as PEM.
        """
        try:
            if self._connection is None:
                self._connection = sqlite3.connect(
                    f"{self._database.as_uri()}?mode=ro", uri=True, timeout=0
                )
            (version,) = self._connection.execute("PRAGMA data_version").fetchone()
            if version != self._version:  # another process has written since
                self._version = version
                self._known.clear()
            if key not in self._known:
                (found,) = self._connection.execute(COMPLETE_MESSAGE, (key, time.time())).fetchone()
                self._known[key] = bool(found)
            return self._known[key]
        except sqlite3.Error:
            self.close()
            return True

    def close(self) -> None:
        """Close the database."""
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None
        self._version = -1
        self._known.clear()
