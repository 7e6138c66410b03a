"""The privacy cost of Gaussian noise, by Google's dp-accounting."""

import math

ACCOUNTANT = "dp-accounting, exact for Gaussian noise without amplification by sampling"


def gaussian_epsilon(noise_multiplier: float, rounds: int, delta: float) -> float:
    """Return the exact epsilon of `rounds` rounds of Gaussian noise at a given delta.

    n releases cost as much as one release with noise smaller by a factor sqrt(n). Balle and Wang,
    "Improving the Gaussian Mechanism for Differential Privacy", ICML 2018, Theorem 8, give its
    epsilon exactly. The bound of Flower's `RdpAccountant` is up to 15 % higher.

    Args:
        noise_multiplier: the noise's standard deviation divided by the sensitivity, above 0.
        rounds: the number of releases, at least 1.
        delta: in (0, 1).
    """
    # Imported here because it takes seconds, and few runs use noise.
    from dp_accounting import get_epsilon_gaussian  # noqa: PLC0415

    return float(get_epsilon_gaussian(noise_multiplier / math.sqrt(rounds), delta))
