"""What fails in a run, when and how: drawn from a seed."""

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
    """A client's reply in a round goes wrong."""

    round: int
    client: int
    kind: str


@dataclass(frozen=True)
class Interruption:
    """The run is ended some seconds into a round; it is resumed."""

    round: int
    kind: str
    seconds: float


@dataclass(frozen=True)
class Schedule:
    """One run's misfortunes.

    Attributes:
        seed: it was drawn from.
        words: the run's overrides.
        faults: of its clients.
        interruptions: of its server, by round.
    """

    seed: int
    words: tuple[str, ...]
    faults: tuple[Fault, ...]
    interruptions: tuple[Interruption, ...]


def draw(seed: int) -> Schedule:
    """A schedule. Every second one is made of interruptions alone."""
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
