"""Exact samples of the discrete Gaussian distribution, many at a time.

P(x) is proportional to exp(-x^2 / (2 sigma^2)) on the integers (Canonne, Kamath, Steinke, "The
Discrete Gaussian for Differential Privacy", NeurIPS 2020). Floating-point noise can reveal what it
should hide (Mironov, CCS 2012); integers do not.

A candidate is plus or minus ``k * w + j``. w is the largest power of two up to sigma, or 1. k is
the number of zeros before the first one in random bits, so P(k) = 2^-(k+1). j is uniform below w.
The candidate is accepted with probability ``2^(k - c) * exp(-x^2 / (2 sigma^2))``, where c is an
upper bound of the exponent. So accepted numbers have exactly the distribution.

Is the sampler exact although it computes in floating point? The test is ``u < a`` for a uniform u
and the acceptance probability a. Double precision gives 53 bits of u, and a with a relative error
below 10^-12. If these bounds do not decide the test, which happens once in about 10^9 candidates,
more bits of u and digits of a are computed until they do.

Numbers beyond 31 sigma are never drawn. Their probability is below 2^-690.
"""

import math
from decimal import Context, Decimal

import numpy as np
from numpy.typing import NDArray

from task.seeding import ByteSource, secret_bytes

MOST_SIGMA = 2.0**56
CHUNK = 1 << 16  # candidates at a time: their arrays stay in the processor's cache
U_BITS = 53
ERROR = 1e-9  # of the acceptance probability, relative; a thousand times the largest possible one
LEAST = 1e-300  # above every acceptance probability that underflows

Integers = NDArray[np.int64]


def discrete_gaussian(
    sigma: float, count: int, random_bytes: ByteSource = secret_bytes
) -> Integers:
    """Draw independent integers from the discrete Gaussian distribution.

    Args:
        sigma: its parameter, above 0 and at most 2^56. The standard deviation is at most sigma, and
            equal to it up to 10^-6 if sigma is at least 1.
        count: how many to draw.
        random_bytes: returns a given number of random bytes.

    Raises:
        ValueError: sigma is out of range.
    """
    if not 0 < sigma <= MOST_SIGMA:
        raise ValueError(f"sigma must be above 0 and at most 2^56, not {sigma}")
    drawn = np.empty(count, np.int64)
    filled = 0
    while filled < count:
        accepted = _accepted(sigma, min(CHUNK, 2 * (count - filled) + 64), random_bytes)
        accepted = accepted[: count - filled]
        drawn[filled : filled + len(accepted)] = accepted
        filled += len(accepted)
    return drawn


def _accepted(sigma: float, candidates: int, random_bytes: ByteSource) -> Integers:
    """Return those of so many candidates that are accepted, in their order."""
    shift = max(0, math.frexp(sigma)[1] - 1)
    bound = exponent_bound(sigma, shift)
    words = np.frombuffer(random_bytes(24 * candidates), np.uint64).reshape(3, candidates)
    zeros = words[0] >> np.uint64(1)
    blocks = np.bitwise_count(~zeros & (zeros - np.uint64(1))).astype(np.int64)  # trailing zeros
    inside = words[1] & np.uint64((1 << shift) - 1)
    negative = (words[0] & np.uint64(1)).astype(bool)
    complete = zeros != 0  # otherwise there is no first one
    sizes = (np.where(complete, blocks, 0) << shift) + inside.astype(np.int64)
    uniform = (words[2] >> np.uint64(64 - U_BITS)).astype(np.int64)

    scaled = sizes / sigma
    accept = np.exp((blocks - bound) * math.log(2) - scaled * scaled / 2)
    below = (uniform + 1) * 2.0**-U_BITS <= accept * (1 - ERROR)
    above = uniform * 2.0**-U_BITS >= accept * (1 + ERROR) + LEAST
    possible = complete & ~(negative & (sizes == 0))  # 0 has one sign, or it would count twice
    for at in np.flatnonzero(possible & ~below & ~above):
        below[at] = accepted_exactly(
            sigma, bound, int(blocks[at]), int(sizes[at]), int(uniform[at]), random_bytes
        )
    accepted: Integers = np.where(negative, -sizes, sizes)[possible & below]
    return accepted


def exponent_bound(sigma: float, shift: int) -> float:
    """Return c, a number above ``k - x^2 / (2 sigma^2 ln 2)`` for every candidate.

    Within a block the exponent is largest at its start, x = k * w. Over the blocks it is a parabola
    with its maximum at k = ln 2 * (sigma / w)^2, which is below 3.
    """
    ratio = 2.0**shift / sigma
    return max(k - (k * ratio) ** 2 / (2 * math.log(2)) for k in range(9)) + ERROR


def accepted_exactly(
    sigma: float, bound: float, blocks: int, size: int, uniform: int, random_bytes: ByteSource
) -> bool:
    """Return whether ``u < 2^(k - c) * exp(-x^2 / (2 sigma^2))``, however close they are.

    Args:
        sigma: the parameter; the number that the float stands for.
        bound: c, likewise.
        blocks: k.
        size: x.
        uniform: the first `U_BITS` bits of u; the others are drawn here.
        random_bytes: returns a given number of random bytes.
    """
    bits = U_BITS
    while True:
        context = Context(prec=bits)
        square = context.divide(Decimal(size), Decimal(sigma))
        square = context.divide(context.multiply(square, square), Decimal(2))
        power = context.subtract(Decimal(blocks), Decimal(bound))
        power = context.multiply(power, context.ln(Decimal(2)))
        accept = context.exp(context.subtract(power, square))
        error = context.multiply(accept, Decimal(10) ** (10 - bits))  # far above all roundings
        unit = context.power(Decimal(2), -bits)
        if context.multiply(Decimal(uniform + 1), unit) <= context.subtract(accept, error):
            return True
        if context.multiply(Decimal(uniform), unit) >= context.add(accept, error):
            return False
        uniform = (uniform << 64) | int.from_bytes(random_bytes(8), "little")
        bits += 64
