"""Notices that the SuperLink has something new, for far less than a question costs it."""

import contextlib
import sqlite3
from pathlib import Path


class Changes:
    """The version of a SQLite database, which increases with every change by another process.

    Args:
        database: the SuperLink's database; nothing is known of its tables, and none is read.
    """

    def __init__(self, database: Path) -> None:
        self._database = database
        self._connection: sqlite3.Connection | None = None

    def version(self) -> int | None:
        """Return the version, or None while the database cannot be opened."""
        try:
            if self._connection is None:
                self._connection = sqlite3.connect(
                    f"{self._database.as_uri()}?mode=ro", uri=True, timeout=0
                )
            return int(self._connection.execute("PRAGMA data_version").fetchone()[0])
        except sqlite3.Error:
            self.close()
            return None

    def close(self) -> None:
        """Close the database."""
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None
