"""A request for the mean and variance of one layer's inputs, and these moments."""

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from task.errors import ProtocolError
from task.models.layers.norm import batch_norm_layers
from task.protocol.after.sent_tensors import TensorsReply
from task.protocol.base import Line
from task.protocol.envelope import Kind, TableRequest
from task.protocol.limits import NAMES_AND_SHAPES, ReplyLimits
from task.protocol.tensors import PackedTensors, type_name

MEAN, VARIANCE = "mean", "variance"
# The model stores the combined moments in float32. Their variance is at most the largest variance
# plus the square of the largest mean, so these bounds keep it finite.
LARGEST_VARIANCE = float(torch.finfo(torch.float32).max) / 4
LARGEST_MEAN = LARGEST_VARIANCE**0.5
NUMBER_BYTES = 8


def moments_bytes(channels: int) -> int:
    """Return the size of one client's moments of a layer with `channels` channels."""
    return 2 * NUMBER_BYTES * channels


class MomentsRequest(TableRequest):
    """Asks a worker for the moments of a layer's inputs on clients' training images.

    Attributes:
        layer: the name of a layer of batch norm in the model.
        channels: the number of its channels.
        images: the largest number of images of a client that are measured.
        weights: the global weights.
    """

    layer: Line
    channels: Annotated[int, Field(ge=1, le=10**6)]
    images: Annotated[int, Field(ge=2)]
    weights: PackedTensors

    def parts(self, model: nn.Module) -> int:
        return len(batch_norm_layers(model))

    def reply_limits(self) -> ReplyLimits:
        most = moments_bytes(self.channels) + NAMES_AND_SHAPES
        arrays = {f"sent/{client}": most for client in self.clients}
        return ReplyLimits(super().reply_limits().header, arrays)


class MomentsReply(TensorsReply):
    """By client, the tensors that `check_moments` describes."""


def check_moments(found: dict[str, Tensor], channels: int) -> tuple[Tensor, Tensor]:
    """Return a client's mean and variance, after checking them.

    Args:
        found: ``mean`` and ``variance``, each [channels] float64.
        channels: of the layer.

    Raises:
        ProtocolError: a name, shape, type or number is not allowed.
    """
    if found.keys() != {MEAN, VARIANCE}:
        raise ProtocolError(f"its arrays must be {MEAN}, {VARIANCE}")
    for name, value in found.items():
        if value.dtype != torch.float64 or tuple(value.shape) != (channels,):
            is_now = f"{type_name(value.dtype)}{tuple(value.shape)}"
            raise ProtocolError(f"{name} is {is_now}, not float64({channels},)")
        most = LARGEST_MEAN if name == MEAN else LARGEST_VARIANCE
        if not bool((value.abs() <= most).all()):  # NaN is not
            raise ProtocolError(f"{name} has a number that is not finite, or too large")
    if bool((found[VARIANCE] < 0).any()):
        raise ProtocolError("variance has a number below 0")
    return found[MEAN], found[VARIANCE]


MOMENTS = Kind("query.moments", MomentsRequest, MomentsReply, counted=True)
