"""Updates in the order in which they arrive from simulated devices.

The order follows from the devices alone, and not from the training. So the next updates are known
before they are computed, and a worker computes them when they arrive: all of a server step at
once, each from the weights that its client started from.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from heapq import heappop, heappush
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from server_app.rounds.devices.devices import Devices
from server_app.rounds.pace.arrivals import Arrival, Arrivals, Job
from server_app.rounds.participation.base import Clients, Participation
from server_app.rounds.sampling import Draws, draw

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
        self._running: list[tuple[float, int, Job]] = []  # a heap: ends first, then started first
        self._started = 0
        self._draws = Draws(clients.seed)

    def take(self, server_round: int, wanted: int, heard: Collection[int]) -> Iterator[Arrival]:
        arrived: list[Job] = []
        left_out: list[Job] = []
        idle = np.ones(self._clients.number, dtype=np.bool_)
        idle[list(heard)] = False
        idle[[job.client for *_, job in self._running]] = False
        while len(arrived) < wanted:
            while self._start(server_round, idle):
                pass
            if not self._running:
                break
            self.now = self._running[0][0]
            waiting = []  # the first updates of the next server step
            while self._running and self._running[0][0] <= self.now:
                ending = heappop(self._running)
                *_, job = ending
                if not job.lost and len(arrived) == wanted:
                    waiting.append(ending)
                else:
                    (left_out if job.lost else arrived).append(job)
            for ending in waiting:
                heappush(self._running, ending)
        if not (arrived or self._running):  # nobody could start: time passes until somebody can
            self.now = self._devices.next_available(self.now)
        yield Arrival(left_out)
        yield from self._train(arrived)

    def rounds(self) -> set[int]:
        return {job.round for *_, job in self._running}

    def state(self) -> Mapping[str, Any]:
        jobs = sorted(self._running, key=itemgetter(1))
        return {"now": self.now, "running": [asdict(job) for *_, job in jobs]}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.now = float(state["now"])
        for fields in state["running"]:
            self._add(Job(**fields))

    def _add(self, job: Job) -> None:
        self._started += 1
        heappush(self._running, (job.ends, self._started, job))

    def _start(self, server_round: int, idle: NDArray[np.bool_]) -> bool:
        """Have clients start before the next arrival, now or as soon as one of them can.

        As many may train as a round has participants.

        Args:
            server_round: the round.
            idle: [K], which clients may start; those that do are taken out.

        Returns:
            Whether one has started; then others may be able to start later.
        """
        missing = self._clients.participants - len(self._running)
        if missing <= 0 or not idle.any():
            return False
        candidates = self._candidates(server_round, idle)
        if not candidates.any():
            begins = self._policy.starts(self._clients, self.now, idle)
            if self._running and begins >= self._running[0][0]:
                return False
            self.now = begins
            candidates = self._candidates(server_round, idle)
        started = self._started
        generator = self._draws.of_round(server_round)
        for client in draw(generator, self._clients.number, missing, candidates):
            idle[client] = False
            attempt = self._devices.attempt(client, server_round, self.now)
            self._add(Job(client, server_round, attempt.ends, attempt.seconds, attempt.reason))
        return self._started > started

    def _candidates(self, server_round: int, idle: NDArray[np.bool_]) -> NDArray[np.bool_]:
        allowed = self._policy.candidates(self._clients, server_round, self.now)
        return idle if allowed is None else idle & allowed
