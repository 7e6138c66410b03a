"""The loss around a model, along two directions."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import mul

import torch
from torch import Tensor, nn

from task.data.batches import DeviceImages
from task.evaluation import evaluate
from task.methods.base import trained_parameters


def losses_around(
    model: nn.Module,
    images: DeviceImages,
    sets: Sequence[Tensor],
    shares: Sequence[float],
    directions: Tensor,
    steps: Sequence[float],
) -> Iterator[tuple[float, float, float]]:
    """The cross-entropy at every pair of steps along two directions (FedAlign, Fig. 1).

    Args:
        model: the model in the middle; it is so again afterwards.
        images: the data set.
        sets: the images that the loss is of, in sets.
        shares: how much the mean of each set counts; together 1.
        directions: [2, trained parameters].
        steps: how far to go along each.

    Yields:
        The step along the first direction, along the second, and the loss there.
    """
    for first in steps:
        for second in steps:
            with moved(model, first * directions[0] + second * directions[1]):
                scores = evaluate(model, images, sets)
            means = [score.means()["loss"] for score in scores]
            yield first, second, math.fsum(map(mul, shares, means))


@contextmanager
def moved(model: nn.Module, by: Tensor) -> Iterator[None]:
    """The model with its trained parameters moved, for a while."""
    parameters = list(trained_parameters(model).values())
    kept = [parameter.detach().clone() for parameter in parameters]
    parts = by.split([parameter.numel() for parameter in parameters])
    try:
        with torch.no_grad():
            for parameter, part in zip(parameters, parts, strict=True):
                parameter.add_(part.view_as(parameter).to(parameter))
        yield
    finally:
        with torch.no_grad():
            for parameter, value in zip(parameters, kept, strict=True):
                parameter.copy_(value)
