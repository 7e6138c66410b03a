"""A masked round among participants in one process, in which the coordinator may lie."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec

from task.secure.coordinator import Coordinator
from task.secure.participant import Participant
from task.secure.primitives.mask_stream import Vector
from task.secure.primitives.signing import public_bytes
from task.secure.rules.ledger import MemoryLedger, SumLedger
from task.secure.rules.roster import Roster, SiteRoster
from task.secure.rules.threshold import colluding_of, threshold_of
from task.secure.transcript import Scope, Setup, View

LENGTH = 1000
MODEL = "ab" * 32
SCOPE = Scope("run", 3, 1, "{}", MODEL, "00" * 16)


def signing_keys(count: int) -> list[ec.EllipticCurvePrivateKey]:
    return [ec.generate_private_key(ec.SECP256R1()) for _ in range(count)]


KEYS = signing_keys(100)


def roster(count: int, colluding: int | None = None) -> Roster:
    """Return the roster of each of `count` sites."""
    names = {client: f"site-{client}" for client in range(count)}
    return SiteRoster(
        names, {names[client]: public_bytes(KEYS[client]) for client in names}, colluding
    )


def update_of(client: int, length: int = LENGTH) -> Vector:
    generator = np.random.default_rng(client)
    return generator.integers(-(2**55), 2**55, length)


@dataclass
class Trial:
    """One attempt at a round.

    Attributes:
        count: how many sites there are.
        scope: the attempt.
        colluding: how many of them may collude.
        ledgers: by site.
        rosters: the roster of each site that has another one.
    """

    count: int
    scope: Scope = SCOPE
    colluding: int | None = None
    uniform: bool = False
    max_share: float = 0.75
    ledgers: dict[int, SumLedger] = field(default_factory=dict)
    claims: Mapping[int, Collection[int]] = field(default_factory=dict)
    setup: Setup = field(init=False)
    view: View = field(init=False)

    def __post_init__(self) -> None:
        clients = range(self.count)
        self.sites = {
            client: Participant(
                client, roster(self.count, self.colluding), self.max_share, KEYS[client]
            )
            for client in clients
        }
        for client in clients:
            self.ledgers.setdefault(client, MemoryLedger())
        keys = {client: public_bytes(KEYS[client]) for client in clients}
        self.counts = {client: 10 + client for client in clients}
        self.coordinator = Coordinator(
            self.scope, threshold_of(self.count, self.colluding),
            colluding_of(self.count, self.colluding), self.uniform, self.counts, keys,
        )  # fmt: skip
        self.updates: dict[int, Vector] = {}

    def keys(self, silent: Collection[int] = ()) -> Setup:
        for client in self.sites.keys() - set(silent):
            advert = self.sites[client].keys(self.scope, self.counts[client])
            self.coordinator.add_advert(advert, self.claims.get(client, ()))
        self.setup = self.coordinator.setup()
        return self.setup

    def share(
        self, silent: Collection[int] = (), shown: Callable[[int], Setup] | None = None
    ) -> None:
        for client in self.setup.adverts.keys() - set(silent):
            setup = shown(client) if shown else self.setup
            self.coordinator.add_boxes(client, self.sites[client].share(setup))
        self.view = self.coordinator.view(self.setup, 0.0)

    def report(
        self, silent: Collection[int] = (), shown: Callable[[int], View] | None = None
    ) -> Vector:
        """Return the sum of the masked updates."""
        total = np.zeros(LENGTH, np.int64)
        for client in sorted(set(self.view.members) - set(silent)):
            view = shown(client) if shown else self.view
            boxes = self.coordinator.boxes_for(client)
            self.sites[client].open_report(view, boxes, self.ledgers[client])
            vector = update_of(client)
            self.sites[client].mask(vector)
            self.updates[client] = vector
            total += vector
        return total

    @property
    def survivors(self) -> tuple[int, ...]:
        return tuple(self.updates)

    def agree(self, silent: Collection[int] = ()) -> dict[int, bytes]:
        for client in sorted(set(self.survivors) - set(silent)):
            signature = self.sites[client].agree(self.survivors, self.ledgers[client])
            self.coordinator.add_signature(self.view, self.survivors, client, signature)
        return self.coordinator.signatures()

    def unmask(self, total: Vector, silent: Collection[int] = ()) -> Vector:
        signatures = self.coordinator.signatures()
        for client in sorted(set(self.survivors) - set(silent)):
            revealed = self.sites[client].unmask(signatures)
            self.coordinator.add_revealed(self.view, self.survivors, client, revealed)
        self.coordinator.unmask(self.view, self.survivors, total)
        return total

    def until_report(self) -> "Trial":
        self.keys()
        self.share()
        self.report()
        return self


def plain_sum(clients: Collection[int] | Mapping[int, object]) -> Vector:
    total = np.zeros(LENGTH, np.int64)
    for client in clients:
        total += update_of(client)
    return total
