"""Random generators keyed by what they are for, never by when they are made.

Every draw in the project comes from a generator whose seed is a hash of (experiment seed, purpose,
round, client, epoch, ...). So no draw depends on which worker runs a client, or in which order.
"""

import hashlib
import json

import numpy as np
import torch


def derived_seed(seed: int, *key: int | str) -> int:
    """A 63-bit seed for one purpose: equal keys give equal seeds, unequal ones unrelated seeds."""
    digest = hashlib.sha256(json.dumps([seed, *key]).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def numpy_generator(seed: int, *key: int | str) -> np.random.Generator:
    """A NumPy generator for one purpose."""
    return np.random.default_rng(derived_seed(seed, *key))


def torch_generator(seed: int, *key: int | str) -> torch.Generator:
    """A CPU torch generator for one purpose, the same numbers whatever the training device."""
    return torch.Generator().manual_seed(derived_seed(seed, *key))
