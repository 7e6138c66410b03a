"""The cost of noise that several participants add together, as zero-concentrated privacy (zCDP).

rho-zCDP adds up over rounds, and holds for discrete Gaussian noise as for continuous noise (Bun and
Steinke, TCC 2016; Canonne, Kamath, Steinke, NeurIPS 2020). Its epsilon is some 10 % above the exact
one of continuous Gaussian noise. Sampling of participants lowers nothing here: it is not secret.
"""

import math

LARGEST_ORDER = 1e9


def gaussian_rho(noise_multiplier: float, rounds: int = 1) -> float:
    """Return rho of `rounds` sums with Gaussian noise.

    Args:
        noise_multiplier: the noise's parameter sigma divided by the L2 sensitivity, above 0.
        rounds: the number of sums.
    """
    return rounds / (2 * noise_multiplier**2)


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return the smallest epsilon with which rho-zCDP is known to imply (epsilon, delta).

    Canonne, Kamath, Steinke, Proposition 12: for each order alpha above 1, epsilon is
    alpha * rho + (ln(1 / delta) - ln(alpha)) / (alpha - 1) + ln(1 - 1 / alpha).

    Args:
        rho: at least 0.
        delta: in (0, 1).
    """
    if not rho:
        return 0.0
    # Imported here because it takes half a second, and most runs have no noise.
    from scipy.optimize import minimize_scalar  # noqa: PLC0415

    def of_order(log_minus_1: float) -> float:
        minus_1 = math.exp(log_minus_1)
        alpha = 1 + minus_1
        # ln(1 - 1/alpha) = ln(alpha - 1) - ln(alpha)
        return (
            alpha * rho
            - (math.log(delta) + math.log1p(minus_1)) / minus_1
            + log_minus_1
            - math.log1p(minus_1)
        )

    found = minimize_scalar(of_order, bounds=(-20, math.log(LARGEST_ORDER)), method="bounded")
    return max(0.0, float(found.fun))


def participant_sigma(sigma: float, honest: int) -> float:
    """Return the parameter of the noise that each participant adds to its own update.

    The noise of `honest` participants has the parameter sigma together. Independent discrete
    Gaussians do not add up to exactly one, but the difference is below exp(-100) if each has a
    parameter of 10 or more (Kairouz, Liu, Steinke, ICML 2021, Theorem 1).

    Args:
        sigma: the parameter that the sum needs.
        honest: t - c: the smallest number of participants in a sum, less those that may collude
            with the coordinator and leave out or reveal their noise; at least 1.

    Raises:
        ValueError: no participant would be left to add noise.
    """
    if honest < 1:
        raise ValueError(f"{honest} honest participants cannot hide anything; at least 1 must")
    return sigma / math.sqrt(honest)
