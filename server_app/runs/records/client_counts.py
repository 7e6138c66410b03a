"""The clients' numbers of images in ``run.json``: each, or a summary of many."""

from collections.abc import Mapping, Sequence

import numpy as np

MOST_LISTED = 1000  # clients whose numbers are listed
DECILES = np.arange(1, 10) / 10

CountSummary = Mapping[str, int | list[int]]


def recorded_counts(images: Sequence[int]) -> list[int] | CountSummary:
    """Return the entry of ``run.json`` on the clients' images.

    Args:
        images: by client, its number of images.

    Returns:
        The numbers; or, of more than `MOST_LISTED` clients, ``count`` (of clients), ``min``,
        ``median``, ``max`` and the nine ``deciles``. These are numbers of single clients.
    """
    if len(images) <= MOST_LISTED:
        return list(images)
    quantile = np.quantile(images, [0, 0.5, 1, *DECILES], method="inverted_cdf").tolist()
    names = ("min", "median", "max")
    return {
        "count": len(images),
        **dict(zip(names, quantile, strict=False)),
        "deciles": quantile[len(names) :],
    }
