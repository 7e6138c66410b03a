"""Random generators, each seeded by a hash of the experiment's seed and its purpose.

Every draw but secret noise comes from a generator whose key is (experiment seed, purpose, round,
client, epoch, ...). So no draw depends on which worker trains a client, or in which order.
"""

import hashlib
import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

ByteSource = Callable[[int], bytes]
secret_bytes: ByteSource = os.urandom


def derived_seed(seed: int, *key: int | str) -> int:
    """Return a 63-bit seed; equal arguments give equal seeds, others unrelated ones.

    Args:
        seed: the experiment's.
        key: the purpose, such as ``"local", round, client``.
    """
    digest = hashlib.sha256(json.dumps([seed, *key]).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def numpy_generator(seed: int, *key: int | str) -> np.random.Generator:
    """Return a NumPy generator for one purpose; see `derived_seed`."""
    return np.random.default_rng(derived_seed(seed, *key))


def torch_generator(seed: int, *key: int | str) -> "torch.Generator":
    """Return a CPU torch generator for one purpose; its numbers are the same for every device."""
    import torch  # noqa: PLC0415  (takes seconds; who counts participants does not need it)

    return torch.Generator().manual_seed(derived_seed(seed, *key))


def repeatable_bytes(seed: int, *key: int | str) -> ByteSource:
    """Return a source whose bytes follow from a seed. Whoever knows the seed can remove the noise.

    Args:
        seed: the experiment's.
        key: what the bytes are for, such as the round.
    """
    return numpy_generator(seed, "privacy", *key).bytes
