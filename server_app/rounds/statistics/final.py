"""The statistics of batch norm after the last round: measured, scored, and stored if chosen.

With ``model.statistics=exact`` the model of the run gets the measured statistics. In a simulation
they are also measured otherwise, and the record has the accuracy with both: averaged statistics can
hide what a model has learned.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import nn

from server_app.config.compatibility.statistics import why_not_measured
from server_app.config.experiment import Experiment
from server_app.nodes.registration import NodeInfo
from server_app.rounds.after.base import StageResult
from server_app.rounds.context import RoundContext
from server_app.rounds.ending.asking import clients_with_images, telling_clients
from server_app.rounds.ending.final_stage import record_new_model
from server_app.rounds.errors import NotMeasuredError, RunFailedError
from server_app.rounds.kind import RoundKind
from server_app.rounds.sampling import clients_to_score
from server_app.rounds.statistics.measuring import STAGE, Measuring
from server_app.runs.recorder import Recorder
from server_app.runs.records.older import ALL_IMAGES
from task.error_messages import describe_error
from task.errors import ConfigError
from task.models.layers.norm import batch_norm_layers

READ_IMAGES = 4096  # of all clients together, that a reading is measured on if it is not chosen
NOBODY = (
    "no site sends its statistics of batch norm; set tell-statistics = true in site.toml of the "
    "sites that agree, or add model.statistics=averaged"
)
SILENT = "the site's owner does not allow tell-statistics"

logger = logging.getLogger("univarfl")


class FinalStatistics:
    """The measurement after the last round, if there is one.

    Args:
        experiment: what is run.
        network: the experiment's.

    Attributes:
        chosen: whether the run's model gets the statistics.
        measures: whether they are measured.

    Raises:
        ConfigError: they are chosen, and the network has no batch norm.
    """

    def __init__(self, experiment: Experiment, network: nn.Module) -> None:
        self._setting = experiment.network().statistics
        self.chosen = self._setting == "exact"
        has_layers = bool(batch_norm_layers(network))
        if self.chosen and not has_layers:
            allowed = "measures batch norm, and the model has none; choose averaged"
            raise ConfigError("model.statistics", "exact", allowed)
        hidden = bool(experiment.partitioner().sites) or experiment.secure.masked
        self.measures = self.chosen or (
            has_layers and not hidden and not any(why_not_measured(experiment))
        )
        self._masked = experiment.secure.masked

    def check_sites(self, sites: Sequence[NodeInfo]) -> None:
        """Refuse to start if none of the connected sites sends its statistics.

        Raises:
            RunFailedError: none does; masked sums need no permission of single sites.
        """
        if self.chosen and sites and not self._masked and not any(s.statistics for s in sites):
            raise RunFailedError(NOBODY)

    def run(self, kind: RoundKind, recorder: Recorder) -> None:
        """Measure the statistics, and record the test scores with both.

        If they cannot be measured, the model stays, and the record has the reason.

        Raises:
            RunFailedError: they are chosen, and too few clients answer.
        """
        context, started = kind.context, time.perf_counter()
        if not (self.chosen or len(context.worker.data.dataset.test)):
            return
        facts: Callable[[], dict[str, Any]] = dict
        try:
            measuring = self._measuring(context)
            facts = measuring.facts
            outcome = StageResult(measuring.measure(), {})
        except (NotMeasuredError, OSError, RunFailedError) as error:
            if self.chosen and not isinstance(error, NotMeasuredError):
                raise
            outcome = StageResult(context.model.weights, {}, describe_error(error))
        readings, reason = self._scores(kind, recorder, outcome)
        seconds = round(time.perf_counter() - started, 3)
        recorder.update(
            statistics={"readings": readings, **facts(), "seconds": seconds, **reason},
            seconds=recorder.seconds_with("statistics", seconds),
        )
        logger.info("%s", statistics_line(readings, seconds, chosen=self.chosen))

    def _measuring(self, context: RoundContext) -> Measuring:
        """Return the measurement, of all clients or, for a reading, of some images."""
        experiment = context.experiment
        images = experiment.network().statistics_images
        everyone = clients_with_images(context)
        if self.chosen:
            telling = everyone if self._masked else telling_clients(context)
            silent = dict.fromkeys(sorted(set(everyone) - set(telling)), SILENT)
            return Measuring(context, everyone, images, silent)
        some = set(clients_to_score(experiment.num_clients, experiment.seed))
        asked = [client for client in everyone if client in some]
        return Measuring(context, asked, min(images, max(2, READ_IMAGES // max(1, len(asked)))))

    def _scores(
        self, kind: RoundKind, recorder: Recorder, outcome: StageResult
    ) -> tuple[dict[str, Mapping[str, float]], dict[str, Any]]:
        """Return the test scores with both statistics, and why the new ones are not used."""
        context, linear = kind.context, "moments" if self._setting == "moments" else "averaged"
        if self.chosen:
            found = record_new_model(kind, recorder, outcome, STAGE)
            if "reason" in found:
                return {linear: found["before"]}, {"reason": found["reason"]}
            return {linear: found["before"], ALL_IMAGES: found["after"]}, {}
        before = context.worker.test(context.model.weights, by_class=True).means
        if outcome.reason:
            context.note("", f"batch norm's statistics: {outcome.reason}")
            return {linear: before}, {"reason": outcome.reason}
        after = context.worker.test(outcome.weights, by_class=True).means
        return {linear: before, ALL_IMAGES: after}, {}


def statistics_line(
    readings: Mapping[str, Mapping[str, float]], seconds: float, *, chosen: bool
) -> str:
    """Return test accuracy with both statistics of batch norm, and seconds, as one line."""
    both = [(name, scores["accuracy"]) for name, scores in readings.items() if scores]
    shown = ", ".join(f"{name} {accuracy:.3f}" for name, accuracy in both) or "no test images"
    kept = f"; the model keeps those {ALL_IMAGES}" if chosen and ALL_IMAGES in readings else ""
    return f"batch norm's statistics: test accuracy {shown}{kept}  {seconds:.1f} s"
