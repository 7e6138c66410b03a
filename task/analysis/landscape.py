"""The loss landscape around a model, along two directions."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import mul

import torch
from torch import Tensor, nn

from task.data.batches import DeviceImages
from task.optim.parameters import trained_parameters
from task.training.evaluation import evaluate


def losses_around(
    model: nn.Module,
    images: DeviceImages,
    sets: Sequence[Tensor],
    shares: Sequence[float],
    directions: Tensor,
    steps: Sequence[float],
) -> Iterator[tuple[float, float, float]]:
    """Yield the cross-entropy at every pair of steps along two directions (FedAlign, Fig. 1).

    Args:
        model: the model at the centre; its weights are restored afterwards.
        images: the data set.
        sets: sets of indices of images, each [n].
        shares: the weight of each set's mean loss; their sum is 1.
        directions: [2, number of trained parameters].
        steps: the multiples of each direction.

    Yields:
        The step along the first direction, the step along the second, and the loss.
    """
    for first in steps:
        for second in steps:
            with shifted_parameters(model, first * directions[0] + second * directions[1]):
                scores = evaluate(model, images, sets)
            means = [score.means()["loss"] for score in scores]
            yield first, second, math.fsum(map(mul, shares, means))


@contextmanager
def shifted_parameters(model: nn.Module, shift: Tensor) -> Iterator[None]:
    """Add `shift` [number of trained parameters] to the trained parameters within the context."""
    parameters = list(trained_parameters(model).values())
    kept = [parameter.detach().clone() for parameter in parameters]
    parts = shift.split([parameter.numel() for parameter in parameters])
    try:
        with torch.no_grad():
            for parameter, part in zip(parameters, parts, strict=True):
                parameter.add_(part.view_as(parameter).to(parameter))
        yield
    finally:
        with torch.no_grad():
            for parameter, value in zip(parameters, kept, strict=True):
                parameter.copy_(value)
