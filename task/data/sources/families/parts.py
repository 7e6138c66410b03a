"""Data sets that come in parts, such as training and test, which are numbered through."""

from collections.abc import Sequence


def place_of(index: int, sizes: Sequence[int]) -> tuple[int, int]:
    """Which part an image lies in, and at which place in it.

    Raises:
        IndexError: the parts have fewer images.
    """
    for part, size in enumerate(sizes):
        if index < size:
            return part, index
        index -= size
    raise IndexError(index)
