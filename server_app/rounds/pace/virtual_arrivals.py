"""Updates in the order in which they arrive from simulated devices.

The order follows from the devices alone, and not from the training. So the next updates are known
before they are computed, and a worker computes them when they arrive: all of a server step at
once, each from the weights that its client started from.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from server_app.rounds.devices.devices import Devices
from server_app.rounds.pace.arrivals import Arrival, Arrivals, Job
from server_app.rounds.participation.base import Clients, Participation
from server_app.rounds.sampling import draw, drawing

Train = Callable[[Sequence[Job]], Iterator[Arrival]]


class VirtualArrivals(Arrivals):
    """The jobs on simulated devices.

    At one instant, arrivals come first, then a server step, then clients that start.

    Args:
        clients: the run's.
        policy: says which of them can be asked.
        devices: theirs.
        train: trains clients whose updates arrive.
    """

    def __init__(
        self, clients: Clients, policy: Participation, devices: Devices, train: Train
    ) -> None:
        self._clients, self._policy, self._devices = clients, policy, devices
        self._train = train
        self._running: list[Job] = []
        self._generators: tuple[int, Any] = (0, None)

    def take(self, server_round: int, wanted: int, heard: Collection[int]) -> Iterator[Arrival]:
        arrived: list[Job] = []
        left_out: list[Job] = []
        while len(arrived) < wanted:
            known = {*heard, *(job.client for job in [*arrived, *left_out])}
            self._start(server_round, known)
            if not self._running:
                break
            self.now = min(job.ends for job in self._running)
            for job in [each for each in self._running if each.ends <= self.now]:
                if not job.lost and len(arrived) == wanted:
                    continue  # it is the first of the next server step
                self._running.remove(job)
                (left_out if job.lost else arrived).append(job)
        if not (arrived or self._running):  # nobody could start: time passes until somebody can
            self.now = self._devices.next_available(self.now)
        yield Arrival(left_out)
        yield from self._train(arrived)

    def rounds(self) -> set[int]:
        return {job.round for job in self._running}

    def state(self) -> Mapping[str, Any]:
        return {"now": self.now, "running": [asdict(job) for job in self._running]}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.now = float(state["now"])
        self._running = [Job(**fields) for fields in state["running"]]

    def _start(self, server_round: int, heard: Collection[int]) -> None:
        """Have clients start, until as many train as a round has participants."""
        missing = self._clients.participants - len(self._running)
        busy = {*heard, *(job.client for job in self._running)}
        if missing <= 0 or len(busy) >= self._clients.number:
            return
        if not self._running:
            self.now = self._policy.starts(self._clients, self.now, busy)
        candidates = self._policy.candidates(self._clients, server_round, self.now)
        generator = self._generator(server_round)
        for client in draw(generator, self._clients.number, missing, candidates, busy):
            attempt = self._devices.attempt(client, server_round, self.now)
            self._running.append(
                Job(client, server_round, attempt.ends, attempt.seconds, attempt.reason)
            )

    def _generator(self, server_round: int) -> Any:
        """Return the generator of a round's draws; its first draw is that of a round that waits."""
        if self._generators[0] != server_round:
            generator = drawing(self._clients.seed, server_round)
            self._generators = server_round, generator
        return self._generators[1]
