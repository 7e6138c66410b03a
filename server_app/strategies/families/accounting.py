"""What noise has cost in privacy, by Google's dp-accounting."""

import math

ACCOUNTANT = "dp-accounting, exact for Gaussian noise without amplification by sampling"


def gaussian_epsilon(noise_multiplier: float, rounds: int, delta: float) -> float:
    """The least epsilon that so many rounds of Gaussian noise keep to, at a delta.

    That many releases tell as much as one whose noise is the root of their number smaller. Balle
    and Wang, "Improving the Gaussian Mechanism for Differential Privacy", ICML 2018, Theorem 8,
    give it exactly; Flower's own `RdpAccountant` gives a bound some percent above.

    Args:
        noise_multiplier: the noise's deviation over the sensitivity, above 0.
        rounds: at least 1.
        delta: in (0, 1).
    """
    # Imported here because it takes seconds, and few runs have noise.
    from dp_accounting import get_epsilon_gaussian  # noqa: PLC0415

    return float(get_epsilon_gaussian(noise_multiplier / math.sqrt(rounds), delta))
