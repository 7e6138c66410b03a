"""The score of each client after the last round: ``client_scores.csv``.

Records made before this file existed do not have it. Neither have runs whose server must not see
the scores of single clients: those with masks, and those with noise at the clients.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from server_app.runs.records.csv_files import rows_as_csv
from server_app.runs.records.tables import LEAST_IMAGES
from task.machine.files import write_whole
from task.training.evaluation import Score

CLIENT_SCORES = "client_scores.csv"
CLIENT_SCORE_COLUMNS = ("client", "site", "images", "accuracy", "loss")
COUNTS = ("clients", "too_few_images")
SPREAD = (*COUNTS, "mean", "worst_tenth", "deviation")
WORST_SHARE = 0.1


class ClientScore(NamedTuple):
    """The final model's score on one client's held-out images.

    Attributes:
        client: its number.
        site: the name of its site; empty in a simulation.
        images: the number of held-out images, at least 1.
        accuracy: from 0 to 1.
        loss: the mean cross-entropy; it may be infinite or NaN.
    """

    client: int
    site: str
    images: int
    accuracy: float
    loss: float


def save_client_scores(directory: Path, scores: Iterable[ClientScore]) -> None:
    """Write the file.

    Raises:
        OSError: it cannot be written.
    """
    write_whole(directory / CLIENT_SCORES, rows_as_csv([CLIENT_SCORE_COLUMNS, *scores]))


def delete_client_scores(directory: Path) -> None:
    """Delete the file, if there is one."""
    (directory / CLIENT_SCORES).unlink(missing_ok=True)


def client_scores(scores: Mapping[int, Score], sites: Sequence[str]) -> list[ClientScore]:
    """Return the scores of the clients that have held-out images, by client.

    Args:
        scores: by client.
        sites: the name of each client's site; empty in a simulation.
    """
    return [
        ClientScore(
            client,
            sites[client] if sites else "",
            score.examples,
            score.correct / score.examples,
            score.loss / score.examples,
        )
        for client, score in sorted(scores.items())
        if score.examples
    ]


def accuracies_that_count(scores: Iterable[ClientScore]) -> list[float]:
    """Return the accuracy of each client with at least `LEAST_IMAGES` images, from the worst."""
    return sorted(score.accuracy for score in scores if score.images >= LEAST_IMAGES)


def spread_over_clients(scores: Sequence[ClientScore]) -> dict[str, Any]:
    """Return how accuracy is spread over clients, for ``run.json``; each client counts the same.

    Returns:
        ``clients``: how many count; ``too_few_images``: how many do not; and if any counts,
        ``mean``, ``worst_tenth`` (the mean of the worst 10 % of the clients, at least one) and
        ``deviation`` (the standard deviation over the clients), all from 0 to 1.
    """
    found = accuracies_that_count(scores)
    counts = [len(found), len(scores) - len(found)]
    if not found:
        return dict(zip(COUNTS, counts, strict=True))
    worst = found[: math.ceil(WORST_SHARE * len(found))]
    spread = [float(value) for value in (np.mean(found), np.mean(worst), np.std(found))]
    return dict(zip(SPREAD, [*counts, *spread], strict=True))
