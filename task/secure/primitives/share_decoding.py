"""Restoring a secret although some shares are wrong, and finding the wrong shares.

Shares of a secret are a word of a Reed-Solomon code, decoded here as in Gao, "A New Algorithm for
Decoding Reed-Solomon Codes", 2003. A polynomial is a list of its coefficients modulo `PRIME`, the
constant one first, without zeros at its end.
"""

from collections.abc import Mapping
from itertools import zip_longest

from task.secure.primitives.shamir import PRIME, SECRET_BYTES, value_at

Polynomial = list[int]


def decode(shares: Mapping[int, bytes], threshold: int) -> tuple[bytes, set[int]]:
    """Return the secret of n shares, by place, and the places of wrong ones.

    At most ``(n - threshold) // 2`` may be wrong. One that is not below `PRIME` counts as wrong.

    Raises:
        ValueError: there are fewer than the threshold, or more are wrong. The latter is not always
            noticed: a caller compares the secret with a commitment.
    """
    if len(shares) < threshold:
        raise ValueError("there are too few shares")
    values = {place: int.from_bytes(share, "big") for place, share in shares.items()}
    every = [1]  # the polynomial that is 0 at each place
    through = Polynomial()  # the one through all shares
    for place, value in values.items():  # Newton's interpolation
        step = (value - value_at(place, through)) * pow(value_at(place, every), -1, PRIME) % PRIME
        through = plus_product(through, [step], every)
        every = plus_product([], [-place % PRIME, 1], every)
    before, rest = every, through
    factor_before, factor = Polynomial(), [1]
    while 2 * (len(rest) - 1) >= len(values) + threshold:  # Euclid's algorithm, ended early
        quotient, remainder = divided(before, rest)
        before, rest = rest, remainder
        minus = [-each % PRIME for each in quotient]
        factor_before, factor = factor, plus_product(factor_before, minus, factor)
    found, remainder = divided(rest, factor)
    if remainder or len(found) > threshold:
        raise ValueError("too many shares are wrong")
    try:
        secret = value_at(0, found).to_bytes(SECRET_BYTES, "big")
    except OverflowError:
        raise ValueError("the shares do not belong to a secret of this length") from None
    return secret, {place for place, value in values.items() if value_at(place, found) != value}


def plus_product(start: Polynomial, left: Polynomial, right: Polynomial) -> Polynomial:
    """Return ``start + left * right``."""
    total = [0] * max(len(start), len(left) + len(right) - 1)
    for place, factor in enumerate(left):
        for offset, coefficient in enumerate(right):
            total[place + offset] += factor * coefficient
    return trimmed([(one + other) % PRIME for one, other in zip_longest(total, start, fillvalue=0)])


def divided(dividend: Polynomial, divisor: Polynomial) -> tuple[Polynomial, Polynomial]:
    """Return the quotient of two polynomials, and the remainder."""
    remainder, leading = list(dividend), pow(divisor[-1], -1, PRIME)
    quotient = [0] * max(0, len(dividend) - len(divisor) + 1)
    for place in reversed(range(len(quotient))):
        factor = quotient[place] = remainder[place + len(divisor) - 1] * leading % PRIME
        for offset, coefficient in enumerate(divisor):
            remainder[place + offset] = (remainder[place + offset] - factor * coefficient) % PRIME
    return trimmed(quotient), trimmed(remainder)


def trimmed(polynomial: Polynomial) -> Polynomial:
    """Return a polynomial without zeros at its end."""
    while polynomial and not polynomial[-1]:
        polynomial.pop()
    return polynomial
