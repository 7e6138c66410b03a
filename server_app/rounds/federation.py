"""A run from the first registration to the final model."""

import logging
import time
from typing import TYPE_CHECKING, Any

import torch
from flwr.serverapp import Grid

from server_app.aggregation.client_weights import ClientWeights
from server_app.aggregation.global_model import GlobalModel
from server_app.aggregation.strategies.base import strategy_of
from server_app.config.experiment import Experiment
from server_app.flower.internals import GRID_ERRORS
from server_app.nodes.late_replies import LateReplies
from server_app.nodes.manager import NodeManager
from server_app.nodes.messages import AddressedRequest, Exchange, RunIdentity
from server_app.nodes.registration import NodeInfo, check_shared_state, hidden_gpu_warning
from server_app.rounds.after.base import stage_of
from server_app.rounds.callbacks import (
    FailurePolicy,
    RecordResults,
    RecordRounds,
    SaveCheckpoints,
    ShowRounds,
    TrackRounds,
)
from server_app.rounds.context import Account, ClientSizes, RoundContext, RunEnd
from server_app.rounds.pace.base import Pace
from server_app.rounds.result import Callback
from server_app.rounds.round import run_round
from server_app.runs.recorder import Recorder
from server_app.runs.records.client_counts import recorded_counts
from server_app.tracking.loggers import MetricLoggers
from task.config import MEASURED
from task.error_messages import describe_error
from task.errors import ConfigError
from task.privacy.description import NOT_TOLD
from task.privacy.settings import large_delta
from task.protocol.registration import FORGET, ForgetRequest
from task.registry import named
from task.training.worker import shared_worker

# What a run imports only if it needs it.
KEEP_MODELS = "server_app.rounds.kept_models:KeepModels"
CLIENT_PARTS = "server_app.rounds.ending.client_parts:save_client_parts"
PATIENCE = "server_app.rounds.patience:Patience"
PRIVACY = "server_app.rounds.privacy_account:PrivacyAccount"
STAGE = "server_app.rounds.ending.final_stage:FinalStage"
STATISTICS = "server_app.rounds.statistics.final:FinalStatistics"  # of networks with batch norm
PACES = {  # by whether the strategy fills a buffer
    False: "server_app.rounds.pace.synchronous:Synchronous",
    True: "server_app.rounds.pace.buffered:Buffered",
}
CLOSED_FORM = "server_app.rounds.closed_form.round:closed_form_round"
STANDARDISED = "server_app.rounds.standardising.measuring:standardised"
FORGET_SECONDS = 60.0

if TYPE_CHECKING:
    from server_app.rounds.ending.final_stage import FinalStage
    from server_app.rounds.statistics.final import FinalStatistics

logger = logging.getLogger("univarfl")


class Federation:
    """One run over one grid.

    Args:
        grid: the grid of the SuperNodes.
        experiment: what is run.
        recorder: keeps the record.
        loggers: receive the metrics of each round.
    """

    def __init__(
        self,
        grid: Grid,
        experiment: Experiment,
        recorder: Recorder,
        loggers: MetricLoggers,
    ) -> None:
        self.grid, self.experiment = grid, experiment
        self.recorder, self.loggers = recorder, loggers
        self.checkpoint = recorder.checkpoint
        if measured := recorder.record.config["data"].get(MEASURED):
            self.experiment = experiment = experiment.with_constants(**measured)
        self._round = self.checkpoint.round if self.checkpoint else 0
        self._run = RunIdentity(recorder.record.key, experiment.local().model_dump_json())
        self._worker = shared_worker(self._run.experiment)
        self._nodes = NodeManager(grid, self._run, experiment, self._note)
        if not (experiment.privacy.private or experiment.validation_share or self._has_test_images):
            allowed = (
                "leaves no images to measure accuracy on, as there is no test set; "
                "use 0.1, or bring test images"
            )
            raise ConfigError("data.validation_share", experiment.validation_share, allowed)
        self._stage = stage_of(experiment)
        self._stage.check_model(experiment, self._worker.model, self._worker.data.dataset)
        self._statistics: FinalStatistics | None = None
        if experiment.tuning().whole and experiment.network().keeps_statistics:
            self._statistics = named(STATISTICS)(experiment, self._worker.model)
        told = not experiment.privacy.private
        self._sizes = ClientSizes(self._worker.data, told, experiment.excluded)

    def run(self) -> RoundContext:
        """Run every round, and keep the model.

        Returns:
            The run after its last round, for `delete_client_states`.

        Raises:
            RegistrationError: the workers cannot serve this run.
            RunFailedError: no client can be trained.
        """
        started = time.perf_counter()
        self._register_nodes()
        self._describe_data()
        context = self._context()
        if self._asks_for_constants:
            self._standardise(context)
            context = self._context()
        model = context.model
        if kept := self._worker.personal.names:
            self.recorder.update(personal=kept)
        connect_seconds = time.perf_counter() - started
        policy = FailurePolicy(self.experiment.num_clients, model.min_updates)
        pace: Pace = named(PACES[model.buffered])(context)
        sizes = {"request_bytes": model.request_bytes, "reply_bytes": pace.kind.reply_bytes}
        self.recorder.update(**sizes, **pace.kind.recorded())
        ending: FinalStage | None = None
        if self._stage.changes_model:
            ending = named(STAGE)(pace.kind, self._stage, self.recorder)
        keeps = self.experiment.watch.models_every is not None
        callbacks: list[Callback] = [
            *([named(KEEP_MODELS)(self.recorder)] if keeps else []),
            RecordRounds(self.recorder),
            TrackRounds(self.loggers),
            ShowRounds(names_sites=bool(self.experiment.partitioner().sites)),
            policy,
            RecordResults(
                self.recorder,
                model,
                connect_seconds,
                self.experiment.partitioner().sites,
                self._record_nodes_and_data,
            ),
            *([ending] if ending else []),
            SaveCheckpoints(self.recorder, model, policy, pace),
        ]
        self._begin(model, policy, pace)
        play = named(CLOSED_FORM) if self._worker.method.closed_form else run_round
        while self._round < context.end.rounds:
            self._round += 1
            result = play(pace, self._round)
            for callback in callbacks:
                callback.after_round(result)
        if stopped := context.end.described():
            self.recorder.update(stopped=dict(stopped))
        if self._worker.personal:
            named(CLIENT_PARTS)(context, self.recorder)
        if self._statistics and self._statistics.measures:
            self._statistics.run(pace.kind, self.recorder)
        if ending:
            ending.run()
        context.late_replies.drop_arrived()
        pace.finish()
        return context

    def _context(self) -> RoundContext:
        """Return the run as its rounds see it, with the untrained model."""
        experiment, worker = self.experiment, self._worker
        model = GlobalModel(experiment, worker, ClientWeights(experiment, self._sizes.train))
        return RoundContext(
            self.grid, self._run, experiment, worker, model, self._nodes, self._sizes,
            LateReplies(self.grid, self._note), self._account(), self._end(), self._note,
            self.recorder.directory, self.checkpoint.seconds if self.checkpoint else 0.0,
        )  # fmt: skip

    @property
    def _asks_for_constants(self) -> bool:
        """Whether the clients are still to be asked for the mean and deviation of their columns."""
        data = self.experiment.data
        return data.get("standardise") == "federated" and MEASURED not in data

    def _standardise(self, context: RoundContext) -> None:
        """Go on with the mean and the deviation of each column, asked of the clients."""
        self.experiment = named(STANDARDISED)(context)
        self._run = RunIdentity(self._run.id, self.experiment.local().model_dump_json())
        self._worker = shared_worker(self._run.experiment)
        self._nodes.go_on_as(self._run)
        config = self.recorder.record.config
        self.recorder.update(config={**config, "data": self.experiment.data})

    def _end(self) -> RunEnd:
        """Return what says when the run ends."""
        if self.experiment.stop.patience is None:
            return RunEnd(self.experiment.rounds)
        end: RunEnd = named(PATIENCE)(self.experiment)
        return end

    def _account(self) -> Account:
        """Return the account of the privacy that is spent."""
        if not (self.experiment.privacy.private or strategy_of(self.experiment).private):
            return Account()
        earlier = self.recorder.record.privacy
        account: Account = named(PRIVACY)(self.experiment, earlier, self.recorder.update)
        return account

    def _begin(self, model: GlobalModel, policy: FailurePolicy, pace: Pace) -> None:
        """Go on from the checkpoint, or record the accuracy of the untrained model."""
        if self.checkpoint:
            model.restore(self.checkpoint.model)
            policy.restore(self.checkpoint.failure_policy)
            pace.restore(self.checkpoint.pace)
            pace.context.end.restore(self.checkpoint.round, self.checkpoint.end)
            return
        for note in model.notes:
            self._note("", note)
        untrained = self._worker.test(model.weights)
        self.recorder.round(0, {"test": untrained.means}, recall=untrained.recall)
        self.loggers.round(0, {"test": untrained.means})

    @property
    def _has_test_images(self) -> bool:
        return len(self._worker.data.dataset.test) > 0

    def _note(self, site: str, what: str) -> None:
        """Record what happened to a site."""
        self.recorder.event(self._round, site, what)

    def _register_nodes(self) -> None:
        experiment = self.experiment
        nodes = self._nodes.wait_for_all()
        check_shared_state(nodes)
        sites = [node for node in nodes if node.site]
        self._stage.check_sites(sites)
        if self._statistics:
            self._statistics.check_sites(sites)
        self._sizes.update(nodes)
        self._record_nodes(nodes)
        kinds = sorted({f"{node.runtime}, {node.device}" for node in nodes})
        count = f"{len(nodes)} SuperNode{'' if len(nodes) == 1 else 's'}"
        logger.info("%s ready (%s)", count, "; ".join(kinds))
        warning = hidden_gpu_warning(nodes, experiment.device, torch.cuda.is_available())
        if warning:
            logger.warning(warning)
        eager = sum(not node.compiled for node in nodes)
        if experiment.runtime.compiled and eager:
            logger.warning(
                "runtime.compiled: the compiler failed on %d of %d workers; see their logs",
                eager, len(nodes),
            )  # fmt: skip

    def _record_nodes(self, nodes: list[NodeInfo]) -> None:
        workers = [
            {
                "site": node.name,
                "device": node.device,
                "runtime": node.runtime,
                "compiled": node.compiled,
                "host": node.host,
                **({"labels": list(node.labels)} if node.labels else {}),
            }
            for node in nodes
        ]
        self.recorder.update(workers=workers)

    def _record_nodes_and_data(self) -> None:
        """Record the SuperNodes and the image counts, with those of sites that came late."""
        self._record_nodes(self._nodes.nodes)
        self.recorder.update(data=self._data())

    def _data(self) -> dict[str, Any]:
        """Return the image counts: from the split in a simulation, else from the sites."""
        data = self._worker.data
        privacy, notes = self.experiment.privacy, list(data.notes)
        if privacy.private:
            smallest = min((len(each.train) for each in data.clients.values()), default=0)
            large = large_delta("privacy.delta", privacy.delta, smallest)
            notes += [NOT_TOLD, large] if large else [NOT_TOLD]
        images = self._sizes.images()
        return {
            "classes": list(data.dataset.classes),
            "domains": [name for name in data.dataset.domains if name],
            "train": sum(self._sizes.train),
            "validation": sum(self._sizes.validation),
            "test": len(data.dataset.test),
            "clients": recorded_counts(images),
            "skipped": len(data.dataset.skipped),
            "duplicates": twice.counts() if (twice := data.dataset.duplicates) else None,
            "notes": notes,
        }

    def _describe_data(self) -> None:
        data = self._data()
        self.recorder.update(data=data)
        if self.experiment.privacy.private:
            logger.info(
                "%s: %d clients, which do not tell how many images they have, and %d test images",
                self.experiment.data["name"], self.experiment.num_clients, data["test"],
            )  # fmt: skip
        else:
            sizes = self._sizes.images()
            logger.info(
                "%s: %d clients with %d to %d images, %d test images",
                self.experiment.data["name"], len(sizes), min(sizes), max(sizes), data["test"],
            )  # fmt: skip
        for note in data["notes"]:
            if note != NOT_TOLD:
                logger.warning("data: %s", note)


def delete_client_states(context: RoundContext) -> None:
    """Have the connected workers delete the clients' states; every site keeps something.

    A run that is resumed needs the states, so no run may need them any more. If the grid is gone,
    they stay.
    """
    experiment, run = context.experiment, context.run
    if not (context.sites or experiment.models_kept):
        return
    fields: dict[str, Any] = {
        "run": run.id, "experiment": run.experiment, "fingerprint": run.fingerprint,
        "round": experiment.rounds, "seconds": FORGET_SECONDS,
    }  # fmt: skip
    try:
        requests = [
            AddressedRequest(node.node_id, ForgetRequest(**fields), node.public_key)
            for node in context.nodes.connected()
        ]
        simulated = not context.sites
        Exchange(context.grid, FORGET, requests, FORGET_SECONDS, simulated).replies()
    except GRID_ERRORS as error:
        logger.warning(
            "the workers could not delete the clients' states: %s", describe_error(error)
        )
