"""Which clients take part in a round."""

import math
from collections import Counter
from decimal import Decimal
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from task.seeding import numpy_generator

MOST_SCORED = 1000  # clients after the last round; of more, a sample is scored


def participant_count(num_clients: int, rho: float) -> int:
    """Return how many clients a round samples: rho * K to the nearest, halves up, at least 1.

    It is computed from the decimal number that was typed: 0.29 of 100 clients are 29, although
    ``int(0.29 * 100)`` is 28.
    """
    return max(1, math.floor(Decimal(str(rho)) * num_clients + Decimal("0.5")))


def quorum_count(quorum: float, clients: int) -> int:
    """Return the smallest number of clients that is at least the share `quorum` of them."""
    return math.ceil(Decimal(str(quorum)) * clients)


def most_asked(num_clients: int, rho: float, seed: int, rounds: int) -> int:
    """Return how many of the first `rounds` rounds sample the client that is sampled most."""
    if participant_count(num_clients, rho) == num_clients:
        return rounds
    samples = (sample_clients(num_clients, rho, seed, number + 1) for number in range(rounds))
    return max(Counter(chain.from_iterable(samples)).values())


def sample_clients(num_clients: int, rho: float, seed: int, server_round: int) -> list[int]:
    """Sample a share `rho` of the clients without replacement; ascending."""
    return draw(drawing(seed, server_round), num_clients, participant_count(num_clients, rho))


def drawing(seed: int, server_round: int) -> np.random.Generator:
    """Return the generator of a round's draws of clients."""
    return numpy_generator(seed, "participation", server_round)


class Draws:
    """Makes several draws in a round, the first as `drawing` does.

    Args:
        seed: the experiment's.
    """

    def __init__(self, seed: int) -> None:
        self._seed, self._round = seed, 0
        self._generator = drawing(seed, 0)

    def of_round(self, server_round: int) -> np.random.Generator:
        """Return the generator of a round, which continues until another round is asked for."""
        if server_round != self._round:
            self._round, self._generator = server_round, drawing(self._seed, server_round)
        return self._generator


def draw(
    generator: np.random.Generator,
    number: int,
    count: int,
    candidates: NDArray[np.bool_] | None = None,
) -> list[int]:
    """Draw clients without replacement; ascending, and fewer if there are not enough.

    Args:
        generator: makes the draw.
        number: of all clients.
        count: how many are drawn.
        candidates: [number], whether each client may be drawn; None for all.
    """
    if candidates is None:
        return sorted(generator.choice(number, size=min(count, number), replace=False).tolist())
    places = np.flatnonzero(candidates)
    size = min(count, len(places))
    return sorted(generator.choice(places, size=size, replace=False).tolist())


def clients_to_score(num_clients: int, seed: int) -> list[int]:
    """Return the clients that score the final model: all, or a sample of `MOST_SCORED`."""
    if num_clients <= MOST_SCORED:
        return list(range(num_clients))
    generator = numpy_generator(seed, "scored clients")
    return sorted(generator.choice(num_clients, size=MOST_SCORED, replace=False).tolist())
