"""How many participants a round needs, and how much each may weigh."""

import math
from collections.abc import Mapping

from task.errors import ProtocolError
from task.exact_sum import relative_weights

LEAST_HONEST = 2  # updates of honest participants in every sum


def default_colluding(count: int) -> int:
    """Return the largest number below a third of the participants."""
    return (count - 1) // 3


def colluding_of(count: int, colluding: int | None) -> int:
    """Return how many of some participants may collude; see `threshold_of`."""
    return default_colluding(count) if colluding is None else colluding


def threshold_of(count: int, colluding: int | None) -> int:
    """Return how many participants a round needs.

    Two sets of this size, signed by different participants, have an honest one in common. So a
    coordinator gets signatures for one set of survivors only.

    Args:
        count: the number of participants.
        colluding: how many of them may work together with the coordinator; None for
            `default_colluding`.

    Raises:
        ValueError: a sum could hold fewer than `LEAST_HONEST` honest updates, or no round could be
            completed.
    """
    colluders = colluding_of(count, colluding)
    needed = (count + colluders) // 2 + 1
    if needed > count or needed - colluders < LEAST_HONEST:
        raise ValueError(
            f"{count} participants of which {colluders} may collude are too few: each sum needs "
            f"{LEAST_HONEST} honest updates; add participants, or lower colluding"
        )
    return needed


def weights_of(counts: Mapping[int, int], uniform: bool, max_share: float) -> dict[int, float]:
    """Return each participant's weight, divided by the largest, from the signed image counts.

    Args:
        counts: by participant.
        uniform: whether all weigh the same.
        max_share: the largest share of all weight that one may have.

    Raises:
        ProtocolError: one has more, or all counts are 0.
    """
    weights = {client: 1.0 if uniform else float(count) for client, count in counts.items()}
    largest = max(weights, key=weights.__getitem__)
    share = weights[largest] / (math.fsum(weights.values()) or 1.0)
    if not 0 < share <= max_share:
        raise ProtocolError(
            f"participant {largest} has {share:.3g} of all weight; it must be over 0 and "
            f"at most {max_share:g} (secure.max_share, or max-share in site.toml), or the sum "
            "would reveal what it holds; raise the limit, or add strategy.weighting=uniform (for "
            "updates) or data.validation_share=0 (for scores)"
        )
    return relative_weights(weights)
