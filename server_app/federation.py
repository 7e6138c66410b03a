"""The run itself: rounds of sampling, training, judging, aggregating and scoring."""

import logging
import time
from collections.abc import Sequence
from typing import Any

import torch
from flwr.serverapp import Grid

from server_app.checkpoint import Checkpoint, save_checkpoint
from server_app.dispatch import Dispatch
from server_app.exchange import Run
from server_app.experiment import Experiment
from server_app.failures import RunFailedError
from server_app.global_model import GlobalModel
from server_app.handshake import Seat, hidden_gpu_warning
from server_app.memory_left import available_bytes, shortage
from server_app.participation import participants
from server_app.patience import Patience
from server_app.progress import round_line
from server_app.recorder import Recorder
from server_app.replies import ClientUpdate
from server_app.round_models import RoundModels, save_models
from server_app.weights import to_tensors
from task.evaluation import Quality
from task.worker import shared_worker

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
        self.checkpoint = checkpoint
        self.server_round = 0
        run = Run(recorder.summary["key"], experiment.local().model_dump_json())
        self.worker = shared_worker(run.experiment)
        self.patience = Patience(experiment.num_clients)
        self._strategy = experiment.aggregation()
        self.dispatch = Dispatch(grid, run, experiment, self.worker, self._note)

    def run(self) -> None:
        """Run every round, and keep the model.

        Raises:
            HandshakeError: the workers cannot serve this run.
            RunFailedError: no client can be trained.
        """
        started = time.perf_counter()
        self._meet_workers()
        self._describe_data()
        self.model = GlobalModel(self.experiment, self.worker, self.dispatch.train_sizes)
        connected = time.perf_counter()
        before = self._go_on() if self.checkpoint else self._begin()
        for server_round in range(self.server_round + 1, self.experiment.rounds + 1):
            found = self._round(server_round)
            spent = before + time.perf_counter() - connected
            if server_round == self.experiment.rounds:
                self._record_results(found, connected - started, spent)
            kept = Checkpoint(server_round, spent, self.model.state(), self.patience.state())
            save_checkpoint(self.recorder.directory, kept)
        # Not before the last checkpoint: a run that goes on needs what is forgotten now.
        self.dispatch.end()

    def _record_results(
        self, final: dict[str, dict[str, float]], connect: float, rounds: float
    ) -> None:
        """Keep the model, its scores, the seconds that were spent, and who was there at last."""
        self.recorder.save_model(self.model.weights)
        seconds = {"connect": connect, "rounds": rounds, "total": connect + rounds}
        results = {split: final[split] for split in ("test", "validation")}
        rounded = {name: round(value, 3) for name, value in seconds.items()}
        self.recorder.update(seconds=rounded, results=results)
        self._record_workers(self.dispatch.roster.seats)
        self.recorder.update(data=self._data())  # with the sites that came late

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

    def _data(self) -> dict[str, Any]:
        """Who holds how many images: each site says so itself, the rest is divided here."""
        data = self.worker.data
        train, validation = self.dispatch.train_sizes, self.dispatch.validation_sizes
        sizes = list(map(sum, zip(train, validation, strict=True)))
        return {
            "classes": list(data.dataset.classes),
            "domains": [name for name in data.dataset.domains if name],
            "train": sum(train),
            "validation": sum(validation),
            "test": len(data.dataset.test),
            "clients": sizes,
            "skipped": len(data.dataset.skipped),
            "notes": list(data.notes),
        }

    def _describe_data(self) -> None:
        found = self._data()
        self.recorder.update(data=found)
        sizes = found["clients"]
        logger.info(
            "%s: %d clients with %d to %d images, %d test images",
            self.experiment.data["name"], len(sizes), min(sizes), max(sizes), found["test"],
        )  # fmt: skip
        for note in found["notes"]:
            logger.warning("data: %s", note)

    def _meet_workers(self) -> None:
        experiment = self.experiment
        seats = self.dispatch.meet()
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

    def _round(self, server_round: int) -> dict[str, dict[str, float]]:
        started = time.perf_counter()
        experiment = self.experiment
        self.server_round = server_round
        if short := shortage(self.model.bytes_a_round, available_bytes()):
            raise RunFailedError(f"round {server_round}: {short}")
        sampled = participants(
            experiment.num_clients, experiment.rho, experiment.seed, server_round
        )
        trained = self._train(server_round, sampled)
        spent = self._strategy.spent(server_round)
        last = server_round == experiment.rounds
        train = train_means(trained)
        if isinstance(spent.get("epsilon"), float):
            train["epsilon"] = spent["epsilon"]
        found: dict[str, dict[str, float]] = {"train": train, "validation": {}, "test": {}}
        quality = Quality({}, {})
        if last or server_round % experiment.evaluate_every == 0:
            judges = list(range(experiment.num_clients)) if last else sampled
            found["validation"], quality = self._score(server_round, judges)
            found["test"] = dict(quality.means)
        train["seconds"] = round(time.perf_counter() - started, 3)
        self.recorder.round(server_round, found, trained, quality.recall)
        if spent:
            self.recorder.update(privacy=spent)
        logger.info(round_line(server_round, experiment.rounds, found, len(sampled)))
        self.patience.watch(server_round, trained, self.model.least_updates)
        return found

    def _train(self, server_round: int, sampled: Sequence[int]) -> list[ClientUpdate]:
        every = self.experiment.watch.models_every
        keep = every is not None and server_round % every == 0
        received = self.model.weights
        intake, trained = self.dispatch.train(server_round, sampled, self.model, keep)
        self.model.update(server_round, intake, self.grid)
        if keep:
            models = RoundModels(received, intake.models, self.model.weights)
            save_models(self.recorder.directory, server_round, models)
        for update in trained:
            if not update.accepted:
                who = update.site if self.dispatch.sites else f"client {update.client}"
                logger.warning("round %d, %s: %s", server_round, who, update.reason)
        return trained

    def _score(self, server_round: int, clients: Sequence[int]) -> tuple[dict[str, float], Quality]:
        """The global model's validation and test; the server does its own meanwhile."""
        scoring = self.dispatch.score(server_round, clients, self.model)
        quality = self._test()
        return scoring.means(), quality

    def _test(self) -> Quality:
        return self.worker.test(to_tensors(self.model.weights))


def train_means(trained: Sequence[ClientUpdate]) -> dict[str, float]:
    """Loss terms averaged over the accepted clients' images, and how many clients there were."""
    accepted = [update for update in trained if update.accepted]
    images = sum(update.examples for update in accepted)
    means: dict[str, float] = {}
    for name in accepted[0].losses if accepted else ():
        if all(name in update.losses for update in accepted):
            means[name] = sum(update.losses[name] * update.examples for update in accepted) / images
    return {**means, "clients": len(accepted), "failed": len(trained) - len(accepted)}
