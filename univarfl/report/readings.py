"""The ways in which the accuracy of a run is reported."""

import math
from collections.abc import Sequence

import numpy as np

from server_app.rounds.sampling import participant_count
from univarfl.records.reader import Run

LAST, LAST_FIVE, BEST = "last round", "mean of the last five", "best by validation"
EXACT = "statistics of all images"
READINGS = (LAST, LAST_FIVE, BEST, EXACT)
WINDOW = 5


def readings(run: Run) -> dict[str, float]:
    """Return a run's accuracy in each way; NaN if not available.

    "Statistics of all images" is that of the last round's weights, with batch norm's statistics
    measured on the clients' images. The others have the statistics of the rounds.

    "Last round" is before a stage that follows training. The mean of the last five rounds needs all
    five to be evaluated. The best round is the one with the best validation accuracy, the earliest
    of equals; choosing it by test accuracy would bias the result. As many clients have validated it
    as any other. If a part of the clients trains in a round there is no choice, as they validate a
    model that they have just trained.
    """
    scored = run.series[run.split, "accuracy"]
    validated = run.series.get(("validation", "accuracy"), {})
    last = max(scored)
    window = [value for at, value in scored.items() if at > last - WINDOW and at > 0]
    rounds = comparable_rounds(run, [at for at in sorted(scored) if at in validated])
    return {
        LAST: scored[last],
        LAST_FIVE: float(np.mean(window)) if len(window) == WINDOW else math.nan,
        BEST: scored[max(rounds, key=lambda at: validated[at])] if rounds else math.nan,
        EXACT: run.record.exact_scores.get("accuracy", math.nan),
    }


def headline_reading(runs: Sequence[Run]) -> str:
    """Return the reading that stands for runs: `EXACT` if their models have these statistics."""
    exact = all(
        run.record.statistics_setting == "exact" and run.record.exact_scores for run in runs
    )
    return EXACT if runs and exact else LAST


def comparable_rounds(run: Run, validated: Sequence[int]) -> Sequence[int]:
    """Return the rounds whose validation the same clients made; none if there is no choice.

    Args:
        run: the run.
        validated: its rounds with accuracies on test and validation images.
    """
    if run.split != "test":
        return []
    if len(validated) == 1:
        return validated
    number = run.config["num_clients"]
    if participant_count(number, run.config["rho"]) < number:
        return []
    clients = run.series.get(("validation", "clients"), {})
    most = max(clients.values(), default=None)
    rounds = [at for at in validated if clients.get(at) == most]
    return rounds if len(rounds) > 1 else []
