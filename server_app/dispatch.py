"""What the server asks of its clients: messages to whoever is there, and what comes back."""

import logging
import time
from collections.abc import Sequence
from dataclasses import replace

from flwr.app import MessageType
from flwr.serverapp import Grid

from server_app.exchange import Exchange, Run, request
from server_app.experiment import Experiment
from server_app.failures import RunFailedError
from server_app.global_model import GlobalModel
from server_app.handshake import Seat, check_memory
from server_app.intake import Intake
from server_app.participation import Cohort, assign, least_share
from server_app.replies import ClientUpdate, scores, updates
from server_app.roster import Note, Roster
from server_app.stragglers import Stragglers
from task import wire
from task.evaluation import Score
from task.worker import Worker

MEGABYTE = 1_000_000
FORGET_SECONDS = 60.0
ROSTER_SECONDS = 1.0

logger = logging.getLogger("univarfl")


class Dispatch:
    """Has clients trained and scored by the SuperNodes that serve them.

    Args:
        grid: where the SuperNodes are.
        run: what they are told of it.
        experiment: what is run.
        worker: the server's.
        note: is told of a site's doings, by its name, and of the run's, without one.

    Attributes:
        roster: the SuperNodes.
        sites: the names of those that the experiment lists; none in simulation.
        train_sizes: by client, its training images; a site's is 0 until it has come.
        validation_sizes: the same of its validation images.
    """

    def __init__(
        self, grid: Grid, run: Run, experiment: Experiment, worker: Worker, note: Note
    ) -> None:
        self._grid, self._run, self._experiment, self._note = grid, run, experiment, note
        self.sites = experiment.divider().sites
        self._keeps_memory = any(member.memory for member in worker.method.members())
        self._most_norm = experiment.aggregation().most_norm()
        self._stragglers = Stragglers(grid, note)
        self.roster = Roster(grid, run, experiment, note)
        splits = worker.data.clients.values()
        self.train_sizes = [len(split.train) for split in splits]
        self.validation_sizes = [len(split.validation) for split in splits]

    def meet(self) -> list[Seat]:
        """Wait for the SuperNodes; see `Roster.meet`."""
        seats = self.roster.meet(self._experiment.federation.join_timeout)
        check_memory(seats)
        self._note_sizes(seats)
        return seats

    def train(
        self, server_round: int, sampled: Sequence[int], model: GlobalModel, keep: bool
    ) -> tuple[Intake, list[ClientUpdate]]:
        """Have the sampled clients trained, in as many attempts as the quorum takes.

        Args:
            server_round: the round, from 1.
            sampled: the clients.
            model: the global model.
            keep: whether the intake is to keep each client's model.

        Raises:
            RunFailedError: however often they were asked, too few were accepted.
        """
        self._stragglers.drop()
        settings = self._experiment.federation
        quorum = least_share(settings.quorum, len(sampled))
        found: dict[int, ClientUpdate] = {}
        intake = None
        for attempt in range(1, settings.attempts + 1):
            seats = self._wait_for(sampled, quorum)
            if intake is None or not intake.accepted:
                known = [client for client in sampled if self._known(client)]
                intake = model.intake(known, keep)
            wanted = [client for client in intake.shares if client not in intake.accepted]
            found |= self._ask(server_round, wanted, seats, model, intake)
            if len(intake.accepted) >= quorum:
                return intake, [found.get(client) or self._absent(client) for client in sampled]
            few = f"{len(intake.accepted)} of {len(sampled)} clients, and the quorum is {quorum}"
            self._note("", f"below the quorum: {few} (attempt {attempt} of {settings.attempts})")
        raise RunFailedError(
            f"round {server_round}: {few} (federation.quorum) after {settings.attempts} attempts"
        )

    def score(self, server_round: int, clients: Sequence[int], model: GlobalModel) -> "Scoring":
        """Have clients score the global model; the server is free until it asks for the scores."""
        seats = self.roster.here()
        here = served(clients, seats)
        cohorts = assign(here, self.validation_sizes, seats, max(1, len(here)))
        exchange = self._send(MessageType.EVALUATE, server_round, cohorts, model)
        return Scoring(self, server_round, cohorts, exchange)

    def end(self) -> None:
        """Name the late ones, and have everybody forget what was kept for another round."""
        self._stragglers.drop()
        if not self.sites and not self._keeps_memory:
            return
        kind, rounds = f"{MessageType.QUERY}.{wire.FORGET}", self._experiment.rounds
        seats = self.roster.here()
        messages = [request(kind, seat.node_id, self._run, rounds) for seat in seats]
        timeout = min(FORGET_SECONDS, self._experiment.federation.round_timeout)
        Exchange(self._grid, messages, timeout, not self.sites).replies()

    def _known(self, client: int) -> bool:
        """Whether it is known how many images a client has."""
        return not self.sites or self.train_sizes[client] > 0

    def _note_sizes(self, seats: Sequence[Seat]) -> None:
        """Take in how many images each site says that it has."""
        for seat in seats:
            if seat.site:
                self.train_sizes[seat.index] = seat.train
                self.validation_sizes[seat.index] = seat.validation

    def _wait_for(self, sampled: Sequence[int], quorum: int) -> list[Seat]:
        """Who can be asked now; sites are waited for while too few of the sampled ones are here."""
        deadline = time.monotonic() + self._experiment.federation.join_timeout
        while True:
            seats = self.roster.here()
            self._note_sizes(seats)
            if len(served(sampled, seats)) >= max(1, quorum) or time.monotonic() >= deadline:
                return seats
            time.sleep(ROSTER_SECONDS)

    def _ask(
        self,
        server_round: int,
        wanted: Sequence[int],
        seats: Sequence[Seat],
        model: GlobalModel,
        intake: Intake,
    ) -> dict[int, ClientUpdate]:
        """Have clients trained, and take in what they send; the answers of those who are here."""
        here = served(wanted, seats)
        most = self._clients_a_message(model, intake)
        cohorts = assign(here, self.train_sizes, seats, most)
        exchange = self._send(MessageType.TRAIN, server_round, cohorts, model, intake)
        found: dict[int, ClientUpdate] = {}
        for place, reply in exchange.arrivals():
            cohort = cohorts[place]
            for update in updates(cohort, reply, intake, adds_up(intake, cohort.seat)):
                found[update.client] = update
        for client, (share, reason) in intake.settle().items():
            if share:
                self._note("", f"client {client}: shortened to {share:.3g} of it: {reason}")
            else:
                found[client] = replace(found[client], reason=reason)
        self.expect_late(exchange, cohorts, f"model of round {server_round}")
        return found

    def _absent(self, client: int) -> ClientUpdate:
        name = self.sites[client] if self.sites else ""
        return ClientUpdate(client, name, reason="absent: its SuperNode is not connected")

    def expect_late(self, exchange: Exchange, cohorts: Sequence[Cohort], what: str) -> None:
        """Have late replies of sites named when they come."""
        for message_id, place in exchange.unanswered.items():
            if cohorts[place].seat.site:
                self._stragglers.expect(message_id, cohorts[place].seat.site, what)

    def _clients_a_message(self, model: GlobalModel, intake: Intake) -> int:
        """How many clients may share a reply; any number where only their sum is sent."""
        if intake.adds_up:
            return self._experiment.num_clients
        limit = self._experiment.federation.message_megabytes * MEGABYTE
        return max(1, int(limit // model.reply_bytes))

    def _send(
        self,
        kind: str,
        server_round: int,
        cohorts: Sequence[Cohort],
        model: GlobalModel,
        intake: Intake | None = None,
    ) -> Exchange:
        records = model.records(kind)
        timeout = self._experiment.federation.round_timeout
        messages = [
            request(
                kind,
                cohort.seat.node_id,
                self._run,
                server_round,
                cohort.clients,
                [model.last_accepted[client] for client in cohort.clients],
                [intake.shares[client] for client in cohort.clients]
                if intake and adds_up(intake, cohort.seat)
                else [],
                records,
                timeout,
                self._most_norm,
            )
            for cohort in cohorts
        ]
        return Exchange(self._grid, messages, timeout, not self.sites)


class Scoring:
    """Scores that clients are working out."""

    def __init__(
        self, dispatch: Dispatch, server_round: int, cohorts: Sequence[Cohort], exchange: Exchange
    ) -> None:
        self._dispatch, self._round = dispatch, server_round
        self._cohorts, self._exchange = cohorts, exchange

    def means(self) -> dict[str, float]:
        """Accuracy and loss over all their images, and how many clients answered."""
        by_client, failures = scores(
            self._cohorts, self._exchange.replies(), self._dispatch.validation_sizes
        )
        what = f"validation of round {self._round}"
        self._dispatch.expect_late(self._exchange, self._cohorts, what)
        for failure in failures:
            logger.warning("round %d, %s", self._round, failure)
        total = sum(by_client.values(), start=Score(0, 0, 0.0))
        return {**total.means(), "clients": len(by_client)}


def adds_up(intake: Intake, seat: Seat) -> bool:
    """Whether a worker adds up what it trains. A site does not: its model is judged."""
    return intake.adds_up and not seat.site


def served(clients: Sequence[int], seats: Sequence[Seat]) -> list[int]:
    """Those of the clients that somebody here can train."""
    return [client for client in clients if any(seat.serves(client) for seat in seats)]
