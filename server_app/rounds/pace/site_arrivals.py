"""Updates in the order in which they arrive from sites."""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from server_app.nodes.assignment import WorkUnit, assign_clients, served_clients
from server_app.nodes.messages import SITES_MAX_PAUSE, Exchange
from server_app.rounds.context import RoundContext
from server_app.rounds.pace.arrivals import Arrival, Arrivals, Job
from server_app.rounds.sampling import Draws, draw

LOOK_SECONDS = 1.0  # between two looks for sites that can start

Ask = Callable[[int, Sequence[WorkUnit]], Exchange[Any, Any]]


@dataclass(frozen=True)
class Open:
    """Requests of one round, some of them without an answer so far.

    Attributes:
        exchange: the requests.
        units: which sites were asked.
        round: the round.
    """

    exchange: Exchange[Any, Any]
    units: Sequence[WorkUnit]
    round: int


class SiteArrivals(Arrivals):
    """The jobs of sites.

    An update that arrives after a server step belongs to the next one. A site that does not answer
    before the round's timeout has failed, and is asked again.

    Args:
        context: the run.
        ask: sends a round's training requests.
    """

    def __init__(self, context: RoundContext, ask: Ask) -> None:
        self._context, self._ask = context, ask
        self._open: list[Open] = []
        self._running: dict[int, Job] = {}  # by client
        self._arrived: list[Arrival] = []  # each of one client
        self._draws = Draws(context.experiment.seed)
        self._looked, self._left = 0.0, time.monotonic()

    def take(self, server_round: int, wanted: int, heard: Collection[int]) -> Iterator[Arrival]:
        for each in self._open:  # the server's work since the last call costs no site its time
            each.exchange.extend(time.monotonic() - self._left)
        self._start(server_round, heard)
        while not self._arrived:
            if not self._open:
                idle = self._idle(heard)
                nodes = self._context.nodes.wait_for_clients(idle, 1) if idle else []
                if not served_clients(idle, nodes):
                    self._left = time.monotonic()
                    return
                self._start(server_round, heard)
            self._poll()
            if not self._arrived:
                time.sleep(SITES_MAX_PAUSE)
                if time.monotonic() - self._looked > LOOK_SECONDS:
                    self._start(server_round, heard)
        taken, self._arrived = self._arrived[:wanted], self._arrived[wanted:]
        yield from taken
        self._left = time.monotonic()

    def rounds(self) -> set[int]:
        return {job.round for job in self.unused()}

    def unused(self) -> list[Job]:
        return [*self._running.values(), *self._waiting()]

    def _waiting(self) -> list[Job]:
        """Return the clients whose updates have arrived, and belong to a later server step."""
        return [job for arrival in self._arrived for job in arrival.jobs]

    def _idle(self, heard: Collection[int]) -> list[int]:
        """Return the clients that neither train nor have an update that waits."""
        busy = {*heard, *self._running, *(job.client for job in self._waiting())}
        everyone = range(self._context.experiment.num_clients)
        return [client for client in everyone if client not in busy]

    def _start(self, server_round: int, heard: Collection[int]) -> None:
        """Ask idle sites that are connected, until as many train as a round has participants."""
        self._looked = time.monotonic()
        experiment = self._context.experiment
        missing = experiment.participants - len(self._running)
        if missing <= 0 or not (idle := self._idle(heard)):
            return
        nodes = self._context.connected()
        here = served_clients(idle, nodes)
        places = draw(self._draws.of_round(server_round), len(here), missing)
        clients = [here[place] for place in places]
        units = assign_clients(clients, self._context.sizes.train, nodes, 1)
        if units:
            self._open.append(Open(self._ask(server_round, units), units, server_round))
            self._running |= {client: Job(client, server_round) for client in clients}

    def _poll(self) -> None:
        """Take the updates that have arrived, and the failures of requests whose time is up.

        A site that is slow to deliver its update takes no time from the others.
        """
        for each in list(self._open):
            began = time.monotonic()
            found = list(each.exchange.poll())
            spent = time.monotonic() - began
            for other in self._open:
                if other is not each:
                    other.exchange.extend(spent)
            if each.exchange.over:
                found += each.exchange.failures()
                self._open.remove(each)
                what = f"model of round {each.round}"
                self._context.late_replies.expect(each.exchange, each.units, what)
            for place, reply in found:
                unit = each.units[place]
                jobs = [self._running.pop(client) for client in unit.clients]
                self._arrived.append(Arrival(jobs, unit, reply))
