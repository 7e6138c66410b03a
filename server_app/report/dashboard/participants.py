"""The clients and the sites of a run, summed over its rounds, and the failures one by one."""

import contextlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from server_app.runs.records.tables import CLIENT_COLUMNS

MOST_CLIENTS, MOST_SITES, MOST_FAILURES, LONGEST = 5000, 1000, 200, 500
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


def participants_of(rows: Iterable[Sequence[str]]) -> dict[str, list[list[Any]]]:
    """Return the rows of the tables of clients, sites and failures."""
    clients: dict[str, Share] = {}
    sites: dict[str, Share] = {}
    failures: list[list[Any]] = []
    for row in rows:
        client, site = row[PLACE["client"]][:LONGEST], row[PLACE["site"]][:LONGEST]
        if client in clients or len(clients) < MOST_CLIENTS:
            clients.setdefault(client, Share()).add(row)
        if site and (site in sites or len(sites) < MOST_SITES):
            sites.setdefault(site, Share()).add(row)
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
    }


def number(text: str) -> float:
    """Return a number of a table, 0 if it is none."""
    with contextlib.suppress(ValueError):
        value = float(text)
        if math.isfinite(value) and 0 <= value < 1e15:
            return value
    return 0.0
