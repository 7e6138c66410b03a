"""Schedules of what fails in a run, and when, drawn from a seed."""

from dataclasses import dataclass

from task.seeding import numpy_generator
from tests.chaos.tampering import FAULTS

ROUNDS, CLIENTS = 4, 5
METHODS = ("fedavg", "univarfl", "moon", "scaffold", "feddyn")
MEANS, ROBUST = ("fedavg", "fedavgm"), ("fedmedian", "krum")
INTERRUPTIONS = ("kill", "sigterm", "disk")
SIMULATED = (
    "engine=inprocess", "data=folder", "data.classes=[cat,dog,fox]", "data.image_size=32",
    "partition=iid", f"num_clients={CLIENTS}", f"rounds={ROUNDS}", "local_epochs=1", "batch_size=8",
    "federation.round_timeout=8", "watch.tensorboard=false",
)  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """A fault in one client's reply in one round."""

    round: int
    client: int
    kind: str


@dataclass(frozen=True)
class Interruption:
    """An interruption some seconds after a round starts; the run is resumed."""

    round: int
    kind: str
    seconds: float


@dataclass(frozen=True)
class Schedule:
    """The faults and interruptions of one run.

    Attributes:
        seed: the seed of the draw.
        words: the run's overrides.
        faults: those of its clients.
        interruptions: those of its server, ordered by round.
    """

    seed: int
    words: tuple[str, ...]
    faults: tuple[Fault, ...]
    interruptions: tuple[Interruption, ...]


def draw(seed: int) -> Schedule:
    """Draw a schedule; those of even seeds have no faults, only interruptions."""
    random = numpy_generator(seed, "chaos")
    method = METHODS[random.integers(len(METHODS))]
    among = MEANS if method in ("scaffold", "feddyn") else MEANS + ROBUST
    strategy = among[random.integers(len(among))]
    words = [
        f"method={method}",
        f"strategy={strategy}",
        f"guard={('none', 'drop')[random.integers(2)]}",
        f"federation.workers={random.integers(1, 4)}",
        f"rho={1.0 if strategy == 'krum' else (0.6, 1.0)[random.integers(2)]}",
        f"seed={seed}",
    ]
    alone = seed % 2 == 0
    faults = [
        Fault(
            int(random.integers(1, ROUNDS + 1)),
            int(random.integers(CLIENTS)),
            sorted(FAULTS)[random.integers(len(FAULTS))],
        )
        for _ in range(0 if alone else random.integers(1, 6))
    ]
    rounds = random.integers(
        1, ROUNDS + 1, size=random.integers(1, 4) if alone else random.integers(2)
    )
    interruptions = [
        Interruption(
            int(server_round),
            INTERRUPTIONS[random.integers(len(INTERRUPTIONS))],
            float(random.uniform(0, 0.3)),
        )
        for server_round in sorted(rounds)
    ]
    return Schedule(seed, (*SIMULATED, *words), tuple(faults), tuple(interruptions))
