"""Which clients take part in a round, and who trains them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from server_app.handshake import Seat
from task.seeding import numpy_generator


def participant_count(num_clients: int, rho: float) -> int:
    """How many clients a round samples: rho * K to the nearest, halves up, and 1 at least.

    Computed from the decimal that was typed: 0.29 of 100 clients are 29, not ``int(0.29 * 100)``.
    """
    return max(1, math.floor(Decimal(str(rho)) * num_clients + Decimal("0.5")))


def least_share(share: float, clients: int) -> int:
    """The smallest number of clients that is at least a share of them, as typed in decimal."""
    return math.ceil(Decimal(str(share)) * clients)


def participants(num_clients: int, rho: float, seed: int, server_round: int) -> list[int]:
    """Sample a share `rho` of the clients without replacement; ascending."""
    count = participant_count(num_clients, rho)
    generator = numpy_generator(seed, "participation", server_round)
    return sorted(generator.choice(num_clients, size=count, replace=False).tolist())


@dataclass(frozen=True)
class Cohort:
    """Clients that one worker takes in turn, for one message."""

    seat: Seat
    clients: list[int]


def assign(
    clients: Sequence[int], sizes: Sequence[int], seats: Sequence[Seat], most: int
) -> list[Cohort]:
    """Share clients out over workers so that these finish together.

    The longest client goes first, each to the worker with the least to do of those that can serve
    it; a worker's share is cut into messages of `most` clients. What a client computes does not
    depend on any of it.

    Args:
        clients: who takes part.
        sizes: indexed by client, how much work each is.
        seats: the workers.
        most: clients per message.
    """
    shares: list[list[int]] = [[] for _ in seats]
    loads = [0] * len(seats)
    for client in sorted(clients, key=lambda client: (-sizes[client], client)):
        able = [place for place, seat in enumerate(seats) if seat.serves(client)]
        least = min(able, key=lambda place: loads[place])
        shares[least].append(client)
        loads[least] += sizes[client]
    return [
        Cohort(seat, share[start : start + most])
        for seat, share in zip(seats, shares, strict=True)
        for start in range(0, len(share), most)
    ]
