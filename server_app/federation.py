"""The run itself: rounds of sampling, training, judging, aggregating and scoring."""

import logging
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import torch
from flwr.app import MessageType
from flwr.serverapp import Grid

from server_app.checkpoint import Checkpoint, save_checkpoint
from server_app.exchange import Exchange, Run, request
from server_app.experiment import Experiment
from server_app.global_model import GlobalModel
from server_app.handshake import Seat, hidden_gpu_warning
from server_app.intake import Intake
from server_app.participation import Cohort, assign, least_share, participants
from server_app.patience import Patience, RunFailedError
from server_app.progress import round_line
from server_app.recorder import Recorder
from server_app.replies import ClientUpdate, scores, updates
from server_app.roster import Roster
from server_app.stragglers import Stragglers
from server_app.weights import to_tensors
from task import wire
from task.evaluation import Quality, Score
from task.worker import shared_worker

MEGABYTE = 1_000_000
FORGET_SECONDS = 60.0
ROSTER_SECONDS = 1.0
LIVES_ON = 2.0  # in deadlines: a site that comes back later than that finds no stale work
NO_SHARES: Mapping[int, float] = MappingProxyType({})

logger = logging.getLogger("univarfl")


class Federation:
    """One run over one grid, from the first handshake to the final model.

    Args:
        grid: where the SuperNodes are.
        experiment: what is run.
        recorder: keeps the record.
        checkpoint: the state to go on from, if the run is resumed.
    """

    def __init__(
        self, grid: Grid, experiment: Experiment, recorder: Recorder, checkpoint: Checkpoint | None
    ) -> None:
        self.grid = grid
        self.experiment = experiment
        self.recorder = recorder
        self.message = Run(recorder.summary["key"], experiment.local().model_dump_json())
        self.worker = shared_worker(self.message.experiment)
        self.patience = Patience(experiment.num_clients)
        self.sites = experiment.divider().sites
        self.roster = Roster(grid, self.message, experiment.device, self.sites, self._note)
        self.stragglers = Stragglers(grid, self._note)
        self.server_round = 0
        self.checkpoint = checkpoint

    def run(self) -> None:
        """Run every round, and keep the model.

        Raises:
            HandshakeError: the workers cannot serve this run.
            RunFailedError: no client can be trained.
        """
        started = time.perf_counter()
        self._meet_workers()
        self._describe_data()
        self.model = GlobalModel(self.experiment, self.worker, self.train_sizes)
        connected = time.perf_counter()
        before = self._go_on() if self.checkpoint else self._begin()
        for server_round in range(self.server_round + 1, self.experiment.rounds + 1):
            final = self._round(server_round)
            if server_round < self.experiment.rounds:
                spent = before + time.perf_counter() - connected
                state = self.model.state()
                kept = Checkpoint(server_round, spent, state, self.patience.state())
                save_checkpoint(self.recorder.directory, kept)
        self.recorder.save_model(self.model.weights)
        ended = time.perf_counter()
        seconds = {
            "connect": round(connected - started, 3),
            "rounds": round(before + ended - connected, 3),
            "total": round(before + ended - started, 3),
        }
        results = {split: final[split] for split in ("test", "validation")}
        self.recorder.update(seconds=seconds, results=results)
        self.stragglers.drop()
        self._forget_memories()

    def _begin(self) -> float:
        """Score the untrained model."""
        first = self._test()
        self.recorder.round(0, {"test": first.means}, recall=first.recall)
        return 0.0

    def _go_on(self) -> float:
        """Put back the state after the last full round; the seconds up to there."""
        assert self.checkpoint is not None
        self.server_round = self.checkpoint.round
        self.model.restore(self.checkpoint.model)
        self.patience.restore(self.checkpoint.patience)
        return self.checkpoint.seconds

    def _describe_data(self) -> None:
        """Record who holds how many images: each site says so itself, the rest is divided here."""
        data = self.worker.data
        self.train_sizes = [len(split.train) for split in data.clients.values()]
        self.validation_sizes = [len(split.validation) for split in data.clients.values()]
        self._note_sizes(self.roster.here())
        sizes = list(map(sum, zip(self.train_sizes, self.validation_sizes, strict=True)))
        description = {
            "classes": list(data.dataset.classes),
            "domains": [name for name in data.dataset.domains if name],
            "train": sum(self.train_sizes),
            "validation": sum(self.validation_sizes),
            "test": len(data.dataset.test),
            "clients": sizes,
            "skipped": len(data.dataset.skipped),
            "notes": list(data.notes),
        }
        self.recorder.update(data=description)
        logger.info(
            "%s: %d clients with %d to %d images, %d test images",
            self.experiment.data["name"], len(sizes), min(sizes), max(sizes), description["test"],
        )  # fmt: skip
        for note in data.notes:
            logger.warning("data: %s", note)

    def _meet_workers(self) -> None:
        experiment = self.experiment
        seats = self.roster.meet(experiment.federation.join_timeout)
        self._record_workers(seats)
        kinds = sorted({f"{seat.runtime}, {seat.device}" for seat in seats})
        count = f"{len(seats)} SuperNode{'' if len(seats) == 1 else 's'}"
        logger.info("%s ready (%s)", count, "; ".join(kinds))
        warning = hidden_gpu_warning(seats, experiment.device, torch.cuda.is_available())
        if warning:
            logger.warning(warning)
        without = sum(not seat.compiled for seat in seats)
        if experiment.runtime.compiled and without:
            logger.warning(
                "runtime.compiled: on %d of %d workers the compiler failed; their logs say why",
                without, len(seats),
            )  # fmt: skip

    def _record_workers(self, seats: Sequence[Seat]) -> None:
        workers = [
            {
                "site": seat.name,
                "device": seat.device,
                "runtime": seat.runtime,
                "compiled": seat.compiled,
                "host": seat.host,
                **({"labels": list(seat.labels)} if seat.labels else {}),
            }
            for seat in seats
        ]
        self.recorder.update(workers=workers)

    def _note(self, site: str, what: str) -> None:
        """Record what happened to a site."""
        self.recorder.event(self.server_round, site, what)

    def _note_sizes(self, seats: Sequence[Seat]) -> None:
        """Take in how many images each site says that it has."""
        for seat in seats:
            if seat.site:
                self.train_sizes[seat.index] = seat.train
                self.validation_sizes[seat.index] = seat.validation

    def _round(self, server_round: int) -> dict[str, dict[str, float]]:
        started = time.perf_counter()
        experiment = self.experiment
        self.server_round = server_round
        self.stragglers.drop()
        sampled = participants(
            experiment.num_clients, experiment.rho, experiment.seed, server_round
        )
        trained = self._train(server_round, sampled)
        last = server_round == experiment.rounds
        train = train_means(trained)
        found: dict[str, dict[str, float]] = {"train": train, "validation": {}, "test": {}}
        quality = Quality({}, {})
        if last or server_round % experiment.evaluate_every == 0:
            judges = list(range(experiment.num_clients)) if last else sampled
            found["validation"], quality = self._score(server_round, judges)
            found["test"] = dict(quality.means)
        train["seconds"] = round(time.perf_counter() - started, 3)
        self.recorder.round(server_round, found, trained, quality.recall)
        logger.info(round_line(server_round, experiment.rounds, found, len(sampled)))
        self.patience.watch(server_round, trained, self.model.least_updates)
        return found

    def _train(self, server_round: int, sampled: Sequence[int]) -> list[ClientUpdate]:
        """Train the sampled clients and move the model, once enough of them were accepted.

        Raises:
            RunFailedError: however often they were asked, too few were.
        """
        settings = self.experiment.federation
        quorum = least_share(settings.quorum, len(sampled))
        found: dict[int, ClientUpdate] = {}
        intake = None
        for _ in range(settings.attempts):
            seats = self._wait_for(sampled, quorum)
            if intake is None or not intake.accepted:
                intake = self.model.intake(
                    [c for c in sampled if self.train_sizes[c] or not self.sites]
                )
            wanted = [client for client in intake.shares if client not in intake.accepted]
            found |= self._ask(server_round, wanted, seats, intake)
            if len(intake.accepted) >= quorum:
                break
            few = f"{len(intake.accepted)} of {len(sampled)} clients, and the quorum is {quorum}"
            self._note("", f"below the quorum: {few}")
        else:
            raise RunFailedError(
                f"round {server_round}: {few} (federation.quorum) after {settings.attempts} "
                "attempts"
            )
        self.model.update(server_round, intake, self.grid)
        trained = [found.get(client) or self._absent(client) for client in sampled]
        for update in trained:
            if not update.accepted:
                logger.warning(
                    "round %d, client %d: %s", server_round, update.client, update.reason
                )
        return trained

    def _wait_for(self, sampled: Sequence[int], quorum: int) -> list[Seat]:
        """Who can be asked now; sites are waited for while too few of the sampled ones are here."""
        deadline = time.monotonic() + self.experiment.federation.round_timeout
        while True:
            seats = self.roster.here()
            self._note_sizes(seats)
            here = sum(any(seat.serves(client) for seat in seats) for client in sampled)
            if here >= max(1, quorum) or time.monotonic() >= deadline:
                return seats
            time.sleep(ROSTER_SECONDS)

    def _ask(
        self, server_round: int, wanted: Sequence[int], seats: Sequence[Seat], intake: Intake
    ) -> dict[int, ClientUpdate]:
        """Have clients trained, and take in what they send; the answers of those who are here."""
        here = [client for client in wanted if any(seat.serves(client) for seat in seats)]
        cohorts = assign(here, self.train_sizes, seats, self._clients_a_message())
        exchange = self._send(MessageType.TRAIN, server_round, cohorts, intake.shares)
        found: dict[int, ClientUpdate] = {}
        for place, reply in exchange.arrivals():
            cohort = cohorts[place]
            for update in updates(cohort, reply, intake, self._adds_up(cohort.seat)):
                found[update.client] = update
        self._expect_late(exchange, cohorts, f"model of round {server_round}")
        return found

    def _absent(self, client: int) -> ClientUpdate:
        name = self.sites[client] if self.sites else ""
        return ClientUpdate(client, name, reason="absent: its SuperNode is not connected")

    def _expect_late(self, exchange: Exchange, cohorts: Sequence[Cohort], what: str) -> None:
        """Have late replies of sites named when they come."""
        for message_id, place in exchange.unanswered.items():
            if cohorts[place].seat.site:
                self.stragglers.expect(message_id, cohorts[place].seat.site, what)

    def _adds_up(self, seat: Seat) -> bool:
        """Whether a worker adds up what it trains. A site does not: its model is judged."""
        return self.model.adds_up and not seat.site

    def _clients_a_message(self) -> int:
        """How many clients may share a reply; any number where only their sum is sent."""
        if self.model.adds_up:
            return self.experiment.num_clients
        limit = self.experiment.federation.message_megabytes * MEGABYTE
        return max(1, int(limit // self.model.reply_bytes))

    def _forget_memories(self) -> None:
        """Tell every worker that what its clients kept for another round can go."""
        if not self.sites and not any(m.memory for m in self.worker.method.members()):
            return
        kind = f"{MessageType.QUERY}.{wire.FORGET}"
        rounds = self.experiment.rounds
        seats = self.roster.here()
        messages = [request(kind, seat.node_id, self.message, rounds) for seat in seats]
        timeout = min(FORGET_SECONDS, self.experiment.federation.round_timeout)
        Exchange(self.grid, messages, timeout).replies()

    def _score(self, server_round: int, clients: Sequence[int]) -> tuple[dict[str, float], Quality]:
        """The global model's validation and test; the server does its own meanwhile."""
        seats = self.roster.here()
        here = [client for client in clients if any(seat.serves(client) for seat in seats)]
        cohorts = assign(here, self.validation_sizes, seats, max(1, len(here)))
        exchange = self._send(MessageType.EVALUATE, server_round, cohorts)
        quality = self._test()
        by_client, failures = scores(cohorts, exchange.replies())
        self._expect_late(exchange, cohorts, f"validation of round {server_round}")
        for failure in failures:
            logger.warning("round %d, %s", server_round, failure)
        total = sum(by_client.values(), start=Score(0, 0, 0.0))
        validation = {**total.means(), "clients": len(by_client)}
        return validation, quality

    def _test(self) -> Quality:
        return self.worker.test(to_tensors(self.model.weights))

    def _send(
        self,
        kind: str,
        server_round: int,
        cohorts: Sequence[Cohort],
        shares: Mapping[int, float] = NO_SHARES,
    ) -> Exchange:
        records = self.model.records(kind)
        timeout = self.experiment.federation.round_timeout
        messages = [
            request(
                kind,
                cohort.seat.node_id,
                self.message,
                server_round,
                cohort.clients,
                [self.model.last_accepted[client] for client in cohort.clients],
                [shares[client] for client in cohort.clients]
                if shares and self._adds_up(cohort.seat)
                else [],
                records,
                LIVES_ON * timeout,
            )
            for cohort in cohorts
        ]
        return Exchange(self.grid, messages, timeout)


def train_means(trained: Sequence[ClientUpdate]) -> dict[str, float]:
    """Loss terms averaged over the accepted clients' images, and how many clients there were."""
    accepted = [update for update in trained if update.accepted]
    images = sum(update.examples for update in accepted)
    means: dict[str, float] = {}
    for name in accepted[0].losses if accepted else ():
        if all(name in update.losses for update in accepted):
            means[name] = sum(update.losses[name] * update.examples for update in accepted) / images
    return {**means, "clients": len(accepted), "failed": len(trained) - len(accepted)}
