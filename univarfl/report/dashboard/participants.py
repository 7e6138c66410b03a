"""The clients and the sites of a run, summed over its rounds, and the failures one by one."""

import contextlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from server_app.runs.records.tables import CLIENT_COLUMNS

MOST_ROWS, MOST_FAILURES, LONGEST = 1000, 200, 500
TABLES = {"clients": "client", "sites": "site"}
PLACE = {name: place for place, name in enumerate(CLIENT_COLUMNS)}


@dataclass
class Share:
    """What one client, or all clients of one site, did."""

    sites: set[str] = field(default_factory=set)
    clients: set[str] = field(default_factory=set)
    done: int = 0
    failed: int = 0
    images: int = 0
    seconds: float = 0.0
    last: str = ""

    def add(self, row: Sequence[str]) -> None:
        """Count one row of ``clients.csv``."""
        self.sites.add(row[PLACE["site"]][:LONGEST])
        self.clients.add(row[PLACE["client"]][:LONGEST])
        if row[PLACE["status"]] == "ok":
            self.done += 1
            self.images += int(number(row[PLACE["examples"]]))
            self.seconds += number(row[PLACE["seconds"]])
        else:
            self.failed += 1
            self.last = row[PLACE["reason"]][:LONGEST]

    def counts(self) -> list[Any]:
        """Return updates, failures, images, seconds and the last reason of a failure."""
        mean = round(self.seconds / self.done, 3) if self.done else None
        return [self.done, self.failed, self.images, mean, self.last]


def participants_of(rows: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Return the rows of the tables of clients, sites and failures.

    Of more than `MOST_ROWS` clients or sites, those with the lowest numbers or the first names have
    a row. ``counts`` is the number of all clients and of all sites.
    """
    names = {key: listed(row[PLACE[of]] for row in rows) for key, of in TABLES.items()}
    clients, sites = ({name: Share() for name in names[key][:MOST_ROWS]} for key in TABLES)
    failures: list[list[Any]] = []
    for row in rows:
        client, site = row[PLACE["client"]][:LONGEST], row[PLACE["site"]][:LONGEST]
        for share in (clients.get(client), sites.get(site)):
            if share is not None:
                share.add(row)
        if row[PLACE["status"]] != "ok":
            reason = row[PLACE["reason"]][:LONGEST]
            failures.append([row[PLACE["round"]][:LONGEST], client, site, reason])
    return {
        "clients": [
            [name, ", ".join(sorted(share.sites))[:LONGEST], *share.counts()]
            for name, share in clients.items()
        ],
        "sites": [[name, len(share.clients), *share.counts()] for name, share in sites.items()],
        "failures": failures[-MOST_FAILURES:],
        "counts": {key: len(found) for key, found in names.items()},
    }


def listed(names: Iterable[str]) -> list[str]:
    """Return the different names that are not empty, as first seen; too many by length and name."""
    found = list(dict.fromkeys(name[:LONGEST] for name in names if name))
    return found if len(found) <= MOST_ROWS else sorted(found, key=lambda name: (len(name), name))


def number(text: str) -> float:
    """Return a number of a table, 0 if it is none."""
    with contextlib.suppress(ValueError):
        value = float(text)
        if math.isfinite(value) and 0 <= value < 1e15:
            return value
    return 0.0
