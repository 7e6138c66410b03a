"""A request for the statistics of each class's features, and these statistics."""

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from task.errors import ProtocolError
from task.protocol.after.sent_tensors import TensorsReply
from task.protocol.envelope import Kind, TableRequest
from task.protocol.limits import NAMES_AND_SHAPES, ReplyLimits
from task.protocol.tensors import PackedTensors, type_name

CLASSES, COUNTS, MEANS, COVARIANCES = "classes", "counts", "means", "covariances"
LARGEST = float(torch.finfo(torch.float32).max)  # of a feature, and so of a mean
LARGEST_COVARIANCE = 4 * LARGEST**2
NUMBER_BYTES = 8


def statistics_bytes(classes: int, features: int) -> int:
    """Return the size of one client's statistics if it has every class.

    Args:
        classes: D.
        features: d.
    """
    return NUMBER_BYTES * classes * (features * features + features + 2)


class StatisticsRequest(TableRequest):
    """Asks a worker for the statistics of clients' training images under the global weights.

    Attributes:
        classes: D, the number of classes.
        features: d, the number of inputs of the classifier.
        weights: the global weights.
    """

    classes: Annotated[int, Field(ge=1, le=10**6)]
    features: Annotated[int, Field(ge=1, le=10**6)]
    weights: PackedTensors

    def reply_limits(self) -> ReplyLimits:
        most = statistics_bytes(self.classes, self.features) + NAMES_AND_SHAPES
        arrays = {f"sent/{client}": most for client in self.clients}
        return ReplyLimits(super().reply_limits().header, arrays)


class StatisticsReply(TensorsReply):
    """By client, the tensors that `check_statistics` describes."""


def check_statistics(
    found: dict[str, Tensor], classes: int, features: int, images: int
) -> dict[str, Tensor]:
    """Return a client's statistics, after checking them.

    Args:
        found: ``classes`` [k] int64, ascending; ``counts`` [k] int64; ``means`` [k, d] and
            ``covariances`` [k, d, d], float64. A covariance need not be symmetric.
        classes: D.
        features: d.
        images: the number of the client's training images; a site leaves out those of rare classes.

    Raises:
        ProtocolError: a name, shape, type or number is not allowed.
    """
    own = found.get(CLASSES, torch.empty(0))
    rows = own.numel()
    shapes = {
        CLASSES: (torch.int64, (rows,)),
        COUNTS: (torch.int64, (rows,)),
        MEANS: (torch.float64, (rows, features)),
        COVARIANCES: (torch.float64, (rows, features, features)),
    }
    if found.keys() != shapes.keys():
        raise ProtocolError(f"its arrays must be {', '.join(shapes)}")
    if not 1 <= rows <= classes:
        raise ProtocolError(f"it has statistics of {rows} classes, of 1 to {classes}")
    for name, (dtype, shape) in shapes.items():
        value = found[name]
        if value.dtype != dtype or tuple(value.shape) != shape:
            is_now = f"{type_name(value.dtype)}{tuple(value.shape)}"
            raise ProtocolError(f"{name} is {is_now}, not {type_name(dtype)}{shape}")
    numbers = own.tolist()
    if numbers != sorted(set(numbers)) or not 0 <= numbers[0] <= numbers[-1] < classes:
        raise ProtocolError(f"its classes must ascend, from 0 to {classes - 1}")
    counts = found[COUNTS].tolist()
    if min(counts) < 1 or sum(counts) > images:
        raise ProtocolError(f"it counts {sum(counts)} training images and has {images}")
    for name, most in ((MEANS, LARGEST), (COVARIANCES, LARGEST_COVARIANCE)):
        if not bool((found[name].abs() <= most).all()):  # NaN is not
            raise ProtocolError(f"{name} has a number that is not finite, or too large")
    return found


STATISTICS = Kind("query.statistics", StatisticsRequest, StatisticsReply, counted=True)
