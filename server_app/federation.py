"""The run itself: rounds of sampling, training, judging, aggregating and scoring."""

import logging
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import torch
from flwr.app import MessageType
from flwr.serverapp import Grid

from server_app.exchange import Exchange, Run, request
from server_app.experiment import Experiment
from server_app.global_model import GlobalModel
from server_app.handshake import Seat, hidden_gpu_warning, meet
from server_app.participation import Cohort, assign, participants
from server_app.patience import Patience
from server_app.progress import round_line
from server_app.recorder import Recorder
from server_app.replies import ClientUpdate, scores, updates
from server_app.weights import to_tensors
from task import wire
from task.evaluation import Quality, Score
from task.worker import shared_worker

MEGABYTE = 1_000_000
FORGET_SECONDS = 60.0
NO_SHARES: Mapping[int, float] = MappingProxyType({})

logger = logging.getLogger("univarfl")


class Federation:
    """One run over one grid, from the first handshake to the final model."""

    def __init__(self, grid: Grid, experiment: Experiment, recorder: Recorder) -> None:
        self.grid = grid
        self.experiment = experiment
        self.recorder = recorder
        self.message = Run(recorder.summary["key"], experiment.local().model_dump_json())
        self.worker = shared_worker(self.message.experiment)
        self.patience = Patience(experiment.num_clients)

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
        rounds_started = time.perf_counter()
        first = self._test()
        self.recorder.round(0, {"test": first.means}, recall=first.recall)
        for server_round in range(1, self.experiment.rounds + 1):
            final = self._round(server_round)
        self.recorder.save_model(self.model.weights)
        ended = time.perf_counter()
        seconds = {
            "connect": round(rounds_started - started, 3),
            "rounds": round(ended - rounds_started, 3),
            "total": round(ended - started, 3),
        }
        results = {split: final[split] for split in ("test", "validation")}
        self.recorder.update(seconds=seconds, results=results)
        self._forget_memories()

    def _describe_data(self) -> None:
        """Record who holds how many images: each site says so itself, the rest is divided here."""
        data = self.worker.data
        self.train_sizes = [len(split.train) for split in data.clients.values()]
        self.validation_sizes = [len(split.validation) for split in data.clients.values()]
        for seat in self.seats:
            if seat.site:
                self.train_sizes[seat.index] = seat.train
                self.validation_sizes[seat.index] = seat.validation
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
        timeout = experiment.federation.round_timeout
        self.seats = meet(self.grid, self.message, experiment.device, timeout)
        self.recorder.update(
            workers=[
                {
                    "site": seat.name,
                    "device": seat.device,
                    "runtime": seat.runtime,
                    "compiled": seat.compiled,
                    "host": seat.host,
                }
                for seat in self.seats
            ]
        )
        kinds = sorted({f"{seat.runtime}, {seat.device}" for seat in self.seats})
        count = f"{len(self.seats)} SuperNode{'' if len(self.seats) == 1 else 's'}"
        logger.info("%s ready (%s)", count, "; ".join(kinds))
        warning = hidden_gpu_warning(self.seats, experiment.device, torch.cuda.is_available())
        if warning:
            logger.warning(warning)
        without = sum(not seat.compiled for seat in self.seats)
        if experiment.runtime.compiled and without:
            logger.warning(
                "runtime.compiled: on %d of %d workers the compiler failed; their logs say why",
                without, len(self.seats),
            )  # fmt: skip

    def _round(self, server_round: int) -> dict[str, dict[str, float]]:
        started = time.perf_counter()
        experiment = self.experiment
        sampled = participants(
            experiment.num_clients, experiment.rho, experiment.seed, server_round
        )
        trained = self._train(server_round, sampled)
        last = server_round == experiment.rounds
        validated = list(range(experiment.num_clients)) if last else sampled
        tested = last or server_round % experiment.evaluate_every == 0
        validation, quality = self._score(server_round, validated, tested)
        train = train_means(trained)
        train["seconds"] = round(time.perf_counter() - started, 3)
        found = {"train": train, "validation": validation, "test": dict(quality.means)}
        self.recorder.round(server_round, found, trained, quality.recall)
        logger.info(round_line(server_round, experiment.rounds, found, len(sampled)))
        self.patience.watch(server_round, trained, self.model.least_updates)
        return found

    def _train(self, server_round: int, sampled: Sequence[int]) -> list[ClientUpdate]:
        intake = self.model.intake(sampled)
        cohorts = assign(sampled, self.train_sizes, self.seats, self._clients_a_message())
        trained: list[ClientUpdate] = []
        exchange = self._send(MessageType.TRAIN, server_round, cohorts, intake.shares)
        for place, reply in exchange.arrivals():
            trained += updates(cohorts[place], reply, intake, self._adds_up(cohorts[place].seat))
        trained.sort(key=lambda update: update.client)
        self.model.update(server_round, intake, self.grid)
        for update in trained:
            if not update.accepted:
                logger.warning(
                    "round %d, client %d: %s", server_round, update.client, update.reason
                )
        return trained

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
        if not any(member.memory for member in self.worker.method.members()):
            return
        kind = f"{MessageType.QUERY}.{wire.FORGET}"
        rounds = self.experiment.rounds
        messages = [request(kind, seat.node_id, self.message, rounds) for seat in self.seats]
        timeout = min(FORGET_SECONDS, self.experiment.federation.round_timeout)
        Exchange(self.grid, messages, timeout).replies()

    def _score(
        self, server_round: int, clients: Sequence[int], tested: bool
    ) -> tuple[dict[str, float], Quality]:
        """The global model's validation and test; the server does its own meanwhile."""
        cohorts = assign(clients, self.validation_sizes, self.seats, len(clients))
        exchange = self._send(MessageType.EVALUATE, server_round, cohorts)
        quality = self._test() if tested else Quality({}, {})
        by_client, failures = scores(cohorts, exchange.replies())
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
                cohort.seat.data,
            )
            for cohort in cohorts
        ]
        return Exchange(self.grid, messages, self.experiment.federation.round_timeout)


def train_means(trained: Sequence[ClientUpdate]) -> dict[str, float]:
    """Loss terms averaged over the accepted clients' images, and how many clients there were."""
    accepted = [update for update in trained if update.accepted]
    images = sum(update.examples for update in accepted)
    means: dict[str, float] = {}
    for name in accepted[0].losses if accepted else ():
        if all(name in update.losses for update in accepted):
            means[name] = sum(update.losses[name] * update.examples for update in accepted) / images
    return {**means, "clients": len(accepted), "failed": len(trained) - len(accepted)}
