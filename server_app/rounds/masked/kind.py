"""Masked rounds: the server gets sums of updates and of scores, and no single one."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from server_app.aggregation.accumulator import UpdateAccumulator
from server_app.config.compatibility.masking import most_colluding, secure_threshold
from server_app.nodes.assignment import WorkUnit
from server_app.rounds.context import RoundContext
from server_app.rounds.kind import ClientScores, RoundKind
from server_app.rounds.masked.scoring import masked_scores
from server_app.rounds.masked.training import MaskedTraining
from task.errors import ConfigError
from task.secure.primitives.mask_stream import VECTOR_ITEM_BYTES
from task.secure.transcript import weights_hash
from task.secure.vectors.update_vector import UpdateVector
from task.training.evaluation import Metrics

LEARNS = (
    "the sum of the updates, of the losses and of the validation scores of each round",
    "which clients took part in each round, on how many images and for how long",
)
LEARNS_WITH_NOISE = (
    "the sum of the updates of each round, with the noise of all participants",
    "which clients took part in each round, and for how long",
)
SIMULATED = (
    "all keys are on one machine, and random rounding follows from the seed, so that this run "
    "protects nobody: it shows the protocol, its cost and its results"
)
AT_SITES = (
    "each site has its own keys, and computes the threshold from its own roster; the coordinator's "
    "program does not see them"
)


class MaskedRounds(RoundKind):
    """Asks clients for masked updates and scores, which cancel in their sums.

    Args:
        context: the run, with the weights that it starts from.

    Raises:
        ConfigError: the starting weights are not those of the experiment's hash.
    """

    def __init__(self, context: RoundContext) -> None:
        super().__init__(context)
        experiment = context.experiment
        start = experiment.secure.start
        if start is not None and weights_hash(context.model.weights) != start:
            allowed = "must have the layers of this network and no others, with secure=masked"
            raise ConfigError("model.weights", experiment.model["weights"], allowed)

    @property
    def reply_bytes(self) -> int:
        """The size of one masked vector."""
        context = self.context
        terms, rule = context.worker.method.reported_terms(), context.experiment.secure.rounding
        return VECTOR_ITEM_BYTES * UpdateVector(context.model.weights, terms, rule).length

    def recorded(self) -> dict[str, Any]:
        """Return the settings, what the coordinator learns, and where the keys are."""
        experiment = self.context.experiment
        learns = LEARNS_WITH_NOISE if experiment.privacy.private else LEARNS
        count, secure = experiment.participants, experiment.secure
        return {
            "secure": {
                "threshold": secure_threshold(experiment, count),
                "colluding": most_colluding(experiment, count),
                "rounding": secure.rounding,
                "max_share": secure.max_share,
                "max_norm": secure.max_norm,
                "coordinator_learns": list(learns),
                "keys": AT_SITES if experiment.partitioner().sites else SIMULATED,
            }
        }

    def least(self, quorum: int, sampled: int) -> int:
        return max(quorum, secure_threshold(self.context.experiment, sampled))

    def keeps_the_model(self, accepted: int, quorum: int) -> bool:
        return accepted >= quorum

    def train(
        self,
        server_round: int,
        attempt: int,
        units: Sequence[WorkUnit],
        accumulator: UpdateAccumulator,
        least: int,
    ) -> Mapping[str, float]:
        return MaskedTraining(self.context, server_round, attempt, units, accumulator, least).run()

    def score(
        self, server_round: int, units: Sequence[WorkUnit], test: Callable[[], Metrics]
    ) -> tuple[Metrics, ClientScores]:
        metrics = test()
        total, count, failures = masked_scores(self.context, server_round, units)
        return metrics, ClientScores(total, count, {}, failures)
