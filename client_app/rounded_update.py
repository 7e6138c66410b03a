"""A client's update in the numbers in which it travels, and the error that it keeps."""

from dataclasses import dataclass, fields

from torch import Tensor

from task.errors import diverged
from task.optim.parameters import trained_parameters
from task.protocol.number_formats import UpdateFormat
from task.tensors import Tensors, is_finite
from task.training.loop import LocalResult
from task.training.worker import Worker

ERROR = "rounding error of "  # begins the names of the errors in a client's state


@dataclass(frozen=True)
class RoundedResult(LocalResult):
    """A client's result, whose weights are those that the server decodes.

    Attributes:
        encoded: what is sent of them.
    """

    encoded: dict[str, Tensor]

    @property
    def sent(self) -> Tensors:
        return self.encoded


def rounded_result(
    result: LocalResult, start: Tensors, error: Tensors, worker: Worker
) -> RoundedResult:
    """Return a client's result as it is sent, with the error that the client keeps, if it does.

    Args:
        result: of the client's training.
        start: the weights that it began with.
        error: what rounding changed in the client's last accepted update, by entry.
        worker: trained it.

    Raises:
        TrainingError: a number of the update is not finite.
    """
    settings = worker.config.update
    update_format = UpdateFormat(settings.format, trained_parameters(worker.model))
    changes = {
        name: (result.weights[name] - value).float() + error.get(name, 0.0)
        for name, value in start.items()
        if update_format.rounds(name)
    }
    encoded = update_format.encode(result.weights, changes)
    decoded = update_format.changes(encoded, start)
    weights = update_format.weights(encoded, start, decoded)
    if not all(is_finite(weights[name]) for name in changes):
        raise diverged("a number of the rounded update is not finite")
    state = result.state
    if settings.error_feedback:
        lost = {ERROR + name: change - decoded[name] for name, change in changes.items()}
        state = {**state, **lost}
    own = {field.name: getattr(result, field.name) for field in fields(LocalResult)}
    return RoundedResult(**{**own, "weights": weights, "state": state}, encoded=encoded)


def without_error(state: Tensors) -> tuple[Tensors, Tensors]:
    """Return what else a client's state holds, and by entry what rounding changed."""
    error = {
        name.removeprefix(ERROR): value for name, value in state.items() if name.startswith(ERROR)
    }
    return {name: value for name, value in state.items() if not name.startswith(ERROR)}, error
