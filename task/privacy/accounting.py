"""The cost of DP-SGD, by Google's dp-accounting."""

import math
from functools import lru_cache
from typing import NamedTuple

from task.privacy.settings import Privacy

ACCOUNTANT = "dp-accounting's PLD: Gaussian noise on Poisson batches, an image added or removed"
COARSE = 100.0
ORDERS = range(2, 64)  # of the Renyi bound


class SampledGaussian(NamedTuple):
    """Steps of DP-SGD.

    Attributes:
        noise_multiplier: the noise's standard deviation divided by the clipping norm, above 0.
        sampling_rate: the probability of each image to be in a batch.
        steps: the number of batches.
    """

    noise_multiplier: float
    sampling_rate: float
    steps: int


def cost_of_training(privacy: Privacy, epochs: int) -> SampledGaussian:
    """Return what a round of so many passes costs an image of a client.

    With privacy for clients it costs as much as noise of half the size. The noise is measured
    by the norm of an update, and one image can turn an update into its opposite.
    """
    if privacy.per_client:
        return SampledGaussian(privacy.noise_multiplier / 2, 1.0, 1)
    return SampledGaussian(privacy.noise_multiplier, privacy.sampling_rate, privacy.steps(epochs))


@lru_cache(maxsize=256)
def pld_epsilon(spent: tuple[SampledGaussian, ...], delta: float) -> float:
    """Return epsilon of several trainings after one another; 0 for none.

    The accountant composes privacy loss distributions. Its grid rounds losses up, so that the
    result is an upper bound. opacus' PRV accountant agrees with it to 1 %. Above `COARSE` it would
    take gigabytes and promise nothing, so the result is the Renyi bound, which is usually higher.
    It is also the result for a delta below 1e-14, for which the accountant has no bound.

    Args:
        spent: the trainings.
        delta: in (0, 1).
    """
    # Imported here because it takes time, and few runs use noise.
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent  # noqa: PLC0415
    from dp_accounting.pld import PLDAccountant  # noqa: PLC0415
    from dp_accounting.rdp import RdpAccountant  # noqa: PLC0415

    events = [
        SelfComposedDpEvent(
            PoissonSampledDpEvent(each.sampling_rate, GaussianDpEvent(each.noise_multiplier)),
            each.steps,
        )
        for each in spent
    ]
    epsilon = math.inf
    for accountant in (RdpAccountant(ORDERS), PLDAccountant()):
        for event in events:
            accountant.compose(event)
        epsilon = min(epsilon, float(accountant.get_epsilon(delta)))
        if epsilon > COARSE:
            break
    return epsilon
