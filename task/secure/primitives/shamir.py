"""Shamir's secret sharing: any `threshold` shares give the secret, fewer say nothing about it.

A secret is the value at 0 of a random polynomial of degree ``threshold - 1`` over the integers
modulo the prime 2^521 - 1. A share is its value at another place. PyCryptodome's version works on
16 bytes at a time in pure Python, and takes seconds for 100 participants.
"""

import secrets
from collections.abc import Iterable, Mapping
from functools import lru_cache

PRIME = 2**521 - 1
SHARE_BYTES = 66
SECRET_BYTES = 32
MOST_SETS = 1_000  # of places whose weights are kept: one for each giver that is checked


def split(secret: bytes, places: Iterable[int], threshold: int) -> dict[int, bytes]:
    """Return a share of the secret for each place.

    Args:
        secret: `SECRET_BYTES` bytes.
        places: numbers from 1, each once.
        threshold: how many shares give the secret.

    Raises:
        ValueError: the secret has another length, a place is not positive or occurs twice, or there
            are fewer places than the threshold.
    """
    every = list(places)
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"a secret must have {SECRET_BYTES} bytes")
    if len(set(every)) < len(every) or min(every, default=1) < 1:
        raise ValueError("places must be different numbers from 1")
    if not 1 <= threshold <= len(every):
        raise ValueError(f"a threshold of {threshold} does not fit {len(every)} places")
    rest = [secrets.randbelow(PRIME) for _ in range(threshold - 1)]
    return {place: share_at(place, [int.from_bytes(secret, "big"), *rest]) for place in every}


def share_at(place: int, coefficients: list[int]) -> bytes:
    """Return the value of a polynomial at a place as a share, the constant coefficient first."""
    return value_at(place, coefficients).to_bytes(SHARE_BYTES, "big")


def value_at(place: int, coefficients: list[int]) -> int:
    """Return the value of a polynomial at a place, the constant coefficient first."""
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * place + coefficient) % PRIME
    return value


def combine(shares: Mapping[int, bytes]) -> bytes:
    """Return the secret of at least `threshold` shares, by place.

    Raises:
        ValueError: they are not shares of one secret, or too few. This is not always noticed: a
            caller compares the secret with a commitment.
    """
    total = 0
    for (_, share), weight in zip(shares.items(), weights_at(tuple(shares)), strict=True):
        total = (total + int.from_bytes(share, "big") * weight) % PRIME
    try:
        return total.to_bytes(SECRET_BYTES, "big")
    except OverflowError:
        raise ValueError("the shares do not belong to one secret, or are too few") from None


@lru_cache(maxsize=MOST_SETS)
def weights_at(places: tuple[int, ...]) -> tuple[int, ...]:
    """Return the weight of each place's value in the value at 0 of a polynomial (Lagrange)."""
    weights = []
    for place in places:
        over = under = 1
        for other in places:
            if other != place:
                over = over * other % PRIME
                under = under * (other - place) % PRIME
        weights.append(over * pow(under, -1, PRIME) % PRIME)
    return tuple(weights)
