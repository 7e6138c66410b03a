"""Ridge: the classifier is replaced by ridge regression on the features of the trained model.

Stage: what ``method=ridge`` does in its only round, with the network of the last round; see
`task.methods.ridge` for the equations, the paper and our choices.
Upload: d (d + 1) / 2 + d D numbers of 64 bits for each client, once. Client state: none.

Our choices:

* With ``secure=masked`` the sums are masked; they are neither weighted nor rounded at random.
* A client that fails, or whose site does not tell statistics, is left out; events.csv names it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from server_app.rounds.after.base import AfterTraining, StageResult
from task.errors import ConfigError, refuse
from task.tensors import Tensors

if TYPE_CHECKING:
    from torch import nn

    from server_app.config.experiment import Experiment
    from server_app.nodes.registration import NodeInfo
    from server_app.rounds.context import RoundContext
    from task.data.dataset import ImageDataset

STAGE = "after=ridge"


@dataclass
class RidgeStage(AfterTraining):
    """Replaces the classifier by ridge regression on features.

    Attributes:
        penalty: lambda, above 0.
    """

    reads: ClassVar = "the sums of clients' features"
    masks: ClassVar = True

    penalty: float

    def __post_init__(self) -> None:
        if self.penalty <= 0:
            refuse(self, "penalty", "must be above 0")

    def problems(self, experiment: "Experiment") -> Iterator[ConfigError]:
        yield from super().problems(experiment)
        yield from self.of_classifier(experiment, "replaces the classifier")

    def check_model(
        self, experiment: "Experiment", network: "nn.Module", dataset: "ImageDataset"
    ) -> None:
        from server_app.rounds.closed_form.classifier import check_size  # noqa: PLC0415

        check_size(experiment, network, STAGE, products=True)

    def check_sites(self, sites: Sequence["NodeInfo"]) -> None:
        from server_app.rounds.closed_form.collecting import NOBODY  # noqa: PLC0415
        from server_app.rounds.errors import RunFailedError  # noqa: PLC0415

        if sites and not any(site.statistics for site in sites):
            raise RunFailedError(NOBODY)

    def apply(self, context: "RoundContext", models: Mapping[int, Tensors]) -> StageResult:
        from server_app.rounds.closed_form.classifier import solve  # noqa: PLC0415

        solved = solve(context, self.penalty, STAGE)
        return StageResult(solved.weights, solved.facts())
