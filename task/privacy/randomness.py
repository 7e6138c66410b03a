"""Where random bytes for privacy come from: the operating system, or a seed for studies."""

import os
from collections.abc import Callable

from task.seeding import numpy_generator

ByteSource = Callable[[int], bytes]

secret_bytes: ByteSource = os.urandom


def repeatable_bytes(seed: int, *key: int | str) -> ByteSource:
    """Return a source whose bytes follow from a seed. Whoever knows the seed can remove the noise.

    Args:
        seed: the experiment's.
        key: what the bytes are for, such as the round.
    """
    return numpy_generator(seed, "privacy", *key).bytes
