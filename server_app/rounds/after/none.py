"""No stage: the model of the last round is the result."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from server_app.rounds.after.base import AfterTraining, StageResult
from task.tensors import Tensors

if TYPE_CHECKING:
    from server_app.rounds.context import RoundContext


@dataclass
class NoStage(AfterTraining):
    """Leaves the model as it is."""

    changes_model: ClassVar = False

    def apply(self, context: "RoundContext", models: Mapping[int, Tensors]) -> StageResult:
        return StageResult(context.model.weights, {})
