"""A participant's part of distributed privacy: its update clipped and noised as integers.

Both are done before anything leaves the participant, and before masks are added.
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from task.privacy.discrete_gaussian import discrete_gaussian
from task.privacy.randomness import ByteSource, secret_bytes
from task.training.update_norm import l2_norm

SLACK = 1e-9  # more than the error of a norm in double precision, relative


def clip_integers(
    update: Mapping[str, Tensor],
    start: Mapping[str, Tensor],
    units: Mapping[str, float],
    max_norm: float,
) -> dict[str, Tensor]:
    """Return an update whose distance from the start is at most `max_norm`, as an L2 norm.

    The distance is scaled down and rounded towards zero, so that rounding cannot enlarge it.

    Args:
        update: share * model in fixed point, int64, by name.
        start: share * the global weights in fixed point, likewise.
        units: the value of one unit, by name.
        max_norm: the bound, in the units of the model; above 0.
    """
    moved = {name: value - start[name] for name, value in update.items()}
    norms = (l2_norm(value) * units[name] for name, value in moved.items())
    norm = math.hypot(*norms)
    scale = max_norm * (1 - SLACK) / norm if norm else math.inf
    if scale >= 1:
        return dict(update)
    return {
        name: start[name] + (value.double() * scale).trunc().long() for name, value in moved.items()
    }


def add_noise(
    update: Mapping[str, Tensor],
    units: Mapping[str, float],
    sigma: float,
    random_bytes: ByteSource = secret_bytes,
) -> dict[str, Tensor]:
    """Return an update with discrete Gaussian noise on every number.

    Args:
        update: in fixed point, int64, by name.
        units: the value of one unit, by name.
        sigma: the noise's parameter in the units of the model, above 0.
        random_bytes: returns a given number of random bytes.
    """
    noisy = {}
    for name, value in update.items():
        noise = discrete_gaussian(sigma / units[name], value.numel(), random_bytes)
        noisy[name] = value + torch.from_numpy(noise).reshape(value.shape)
    return noisy
