"""Data sets stored in parts, such as training and test, whose images are numbered consecutively."""

from collections.abc import Sequence


def locate(index: int, sizes: Sequence[int]) -> tuple[int, int]:
    """Return the part that contains an image, and the image's position in that part.

    Args:
        index: the image's number in the whole data set.
        sizes: the number of images of each part.

    Raises:
        IndexError: there are fewer images.
    """
    for part, size in enumerate(sizes):
        if index < size:
            return part, index
        index -= size
    raise IndexError(index)
