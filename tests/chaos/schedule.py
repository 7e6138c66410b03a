"""Schedules of what fails in a run, and when, drawn from a seed."""

from dataclasses import dataclass

import numpy as np

from task.seeding import numpy_generator
from tests.chaos.tampering import FAULTS

ROUNDS, CLIENTS = 4, 5
METHODS = ("fedavg", "univarfl", "moon", "scaffold", "feddyn")
MEANS, ROBUST = ("fedavg", "fedavgm"), ("fedmedian", "krum")
STATEFUL = ("fedavg", "univarfl", "moon", "fedbn")
PACES = (
    ("strategy=fedbuff", "strategy.buffer_size=2"),
    ("strategy=fedbuff", "strategy.buffer_size=1", "strategy.max_staleness=3"),
    ("participation=available", "clock.available_hours=12", "clock.available_spread=6"),
    ("participation=deadline", "participation.deadline=20"),
    ("participation=uniform", "strategy=fedmedian"),
)
DEVICES = ("clock=virtual", "clock.speed_sigma=1.5", "clock.seconds_per_image=0.1")
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


def draw(seed: int, timed: bool = False) -> Schedule:
    """Draw a schedule; those of even seeds have no faults, only interruptions.

    Args:
        seed: of the draw.
        timed: whether the clients have simulated devices.
    """
    random = numpy_generator(seed, "chaos, timed" if timed else "chaos")
    words = timed_words(random, seed) if timed else plain_words(random, seed)
    return with_events(random, seed, words)


def plain_words(random: np.random.Generator, seed: int) -> list[str]:
    """Draw a method and a strategy that wait for all clients."""
    method = METHODS[random.integers(len(METHODS))]
    among = MEANS if method in ("scaffold", "feddyn") else MEANS + ROBUST
    strategy = among[random.integers(len(among))]
    return [
        f"method={method}",
        f"strategy={strategy}",
        f"guard={('none', 'drop')[random.integers(2)]}",
        f"federation.workers={random.integers(1, 4)}",
        f"rho={1.0 if strategy == 'krum' else (0.6, 1.0)[random.integers(2)]}",
        f"seed={seed}",
    ]


def timed_words(random: np.random.Generator, seed: int) -> list[str]:
    """Draw a method, and who takes part on simulated devices."""
    return [
        f"method={STATEFUL[random.integers(len(STATEFUL))]}",
        *DEVICES,
        f"clock.dropout={(0.0, 0.3)[random.integers(2)]}",
        *PACES[random.integers(len(PACES))],
        f"guard={('none', 'drop')[random.integers(2)]}",
        f"federation.workers={random.integers(1, 4)}",
        f"rho={(0.6, 1.0)[random.integers(2)]}",
        f"seed={seed}",
    ]


def with_events(random: np.random.Generator, seed: int, words: list[str]) -> Schedule:
    """Draw the faults and interruptions of a run with these overrides."""
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
