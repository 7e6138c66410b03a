"""The SuperNodes in the database of Flower's SuperLink.

Flower's commands show neither their names nor their keys, so the table is read, never written.
``tests/univarfl/deploy/membership/test_registry.py`` fails when a new version of Flower changes
it.
"""

import errno
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

QUERY = "SELECT node_id, name, public_key, status FROM node"
UNREGISTERED = "unregistered"
SECONDS = 10.0  # to wait for the SuperLink's own writing


@dataclass(frozen=True)
class RegisteredNode:
    """One SuperNode that is or was registered.

    Attributes:
        node_id: Flower's id.
        name: its name; empty if it has none.
        key: its public key, as PEM.
        active: whether it may join; a key that was unregistered can never be registered again.
    """

    node_id: int
    name: str
    key: bytes
    active: bool


def registered_nodes(database: Path) -> list[RegisteredNode]:
    """Return the SuperNodes that are or were registered; none before the first SuperLink starts.

    Raises:
        OSError: the database cannot be read.
    """
    if not database.exists():
        return []
    address = f"{database.absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=SECONDS)) as connection:
            rows = connection.execute(QUERY).fetchall()
    except sqlite3.Error as error:
        raise OSError(errno.EIO, str(error), str(database)) from None
    return [
        RegisteredNode(node_id % 2**64, name or "", bytes(key), status != UNREGISTERED)
        for node_id, name, key, status in rows
    ]
