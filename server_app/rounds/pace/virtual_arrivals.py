"""Updates in the order in which they arrive from simulated devices.

The order follows from the devices alone, and not from the training. So the next updates are known
before they are computed, and a worker computes them when they arrive: all of a server step at
once, each from the weights that its client started from.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from server_app.rounds.devices.devices import Devices
from server_app.rounds.pace.arrivals import Arrival, Arrivals, Flight
from server_app.rounds.participation.base import Clients, Participation, draw
from task.seeding import numpy_generator

Train = Callable[[int, Sequence[Flight]], Iterator[Arrival]]


class VirtualArrivals(Arrivals):
    """The clients in flight on simulated devices.

    At one instant, arrivals come first, then a server step, then clients that start.

    Args:
        clients: the run's.
        policy: says which of them can be asked.
        devices: theirs.
        train: trains clients whose updates arrive in a round.
    """

    def __init__(
        self, clients: Clients, policy: Participation, devices: Devices, train: Train
    ) -> None:
        self._clients, self._policy, self._devices = clients, policy, devices
        self._train = train
        self._flying: list[Flight] = []
        self._generators: tuple[int, Any] = (0, None)

    def take(self, server_round: int, wanted: int, heard: Collection[int]) -> Iterator[Arrival]:
        arrived: list[Flight] = []
        left_out: list[Flight] = []
        while len(arrived) < wanted:
            known = {*heard, *(flight.client for flight in [*arrived, *left_out])}
            self._start(server_round, known)
            if not self._flying:
                break
            self.now = min(flight.ends for flight in self._flying)
            for flight in [each for each in self._flying if each.ends <= self.now]:
                if not flight.lost and len(arrived) == wanted:
                    continue  # it is the first of the next server step
                self._flying.remove(flight)
                (left_out if flight.lost else arrived).append(flight)
        yield Arrival(left_out)
        yield from self._train(server_round, arrived)

    def rounds(self) -> set[int]:
        return {flight.round for flight in self._flying}

    def state(self) -> Mapping[str, Any]:
        return {"now": self.now, "flying": [asdict(flight) for flight in self._flying]}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.now = float(state["now"])
        self._flying = [Flight(**fields) for fields in state["flying"]]

    def _start(self, server_round: int, heard: Collection[int]) -> None:
        """Have clients start, until as many are in flight as a round has participants."""
        missing = self._clients.participants - len(self._flying)
        busy = {*heard, *(flight.client for flight in self._flying)}
        if missing <= 0 or len(busy) >= self._clients.number:
            return
        if not self._flying:
            self.now = self._policy.starts(self._clients, self.now)
        candidates = self._policy.candidates(self._clients, server_round, self.now)
        generator = self._generator(server_round)
        for client in draw(generator, self._clients.number, missing, candidates, busy):
            attempt = self._devices.attempt(client, server_round, self.now)
            self._flying.append(
                Flight(client, server_round, attempt.ends, attempt.seconds, attempt.reason)
            )

    def _generator(self, server_round: int) -> Any:
        """Return the generator of a round's draws; its first draw is that of a round that waits."""
        if self._generators[0] != server_round:
            generator = numpy_generator(self._clients.seed, "participation", server_round)
            self._generators = server_round, generator
        return self._generators[1]
