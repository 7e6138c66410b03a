"""A participant's part of distributed privacy: its update clipped and noised as integers.

Both are done before anything leaves the participant, and before masks are added.
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from task.errors import TrainingError
from task.optim.update_norm import l2_norm
from task.privacy.discrete_gaussian import discrete_gaussian
from task.privacy.zcdp import participant_sigma
from task.seeding import ByteSource, secret_bytes

SLACK = 1e-9  # more than the error of a norm in double precision, relative
LEAST_SIGMA = 10.0  # in units, of one participant; see `participant_sigma`


def protect_update(
    update: Mapping[str, Tensor],
    unit: float,
    max_norm: float,
    noise_multiplier: float,
    honest: int,
    random_bytes: ByteSource = secret_bytes,
) -> dict[str, Tensor]:
    """Return an update clipped, and with its part of the noise.

    Rounding does not enlarge the update. So a sum without the update differs by at most `max_norm`,
    and costs what `gaussian_rho` says: zCDP adds up over numbers.

    Args:
        update: the model minus the global weights in fixed point, int64, by name.
        unit: the value of one unit.
        max_norm: the bound of an update, in the units of the model; above 0.
        noise_multiplier: the noise of `honest` participants together, divided by `max_norm`; 0
            clips only.
        honest: see `participant_sigma`.
        random_bytes: returns a given number of random bytes.

    Raises:
        TrainingError: the noise would be too small for the fixed point.
    """
    clipped = clip_integers(update, unit, max_norm)
    if not noise_multiplier:
        return clipped
    sigma = participant_sigma(noise_multiplier * max_norm, honest)
    if sigma < LEAST_SIGMA * unit:
        raise TrainingError(
            f"the noise of one participant is below {LEAST_SIGMA:g} units of {unit:.2g}; raise "
            "privacy.noise_multiplier or privacy.clipping_norm"
        )
    return add_noise(clipped, unit, sigma, random_bytes)


def clip_integers(update: Mapping[str, Tensor], unit: float, max_norm: float) -> dict[str, Tensor]:
    """Return an update whose L2 norm is at most `max_norm`.

    A larger one is scaled down and rounded towards zero, so that rounding cannot enlarge it.

    Args:
        update: the model minus the global weights in fixed point, int64, by name.
        unit: the value of one unit.
        max_norm: the bound, in the units of the model; above 0.
    """
    norm = math.hypot(*map(l2_norm, update.values())) * unit
    scale = max_norm * (1 - SLACK) / norm if norm else math.inf
    if scale >= 1:
        return dict(update)
    return {name: (value.double() * scale).trunc().long() for name, value in update.items()}


def add_noise(
    update: Mapping[str, Tensor],
    unit: float,
    sigma: float,
    random_bytes: ByteSource = secret_bytes,
) -> dict[str, Tensor]:
    """Return an update with discrete Gaussian noise on every number.

    Args:
        update: in fixed point, int64, by name.
        unit: the value of one unit.
        sigma: the noise's parameter in the units of the model, above 0.
        random_bytes: returns a given number of random bytes.
    """
    noisy = {}
    for name, value in update.items():
        noise = discrete_gaussian(sigma / unit, value.numel(), random_bytes)
        noisy[name] = value + torch.from_numpy(noise).reshape(value.shape)
    return noisy
