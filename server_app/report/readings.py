"""The three ways in which papers report the accuracy of a run."""

import math

import numpy as np

from server_app.rounds.sampling import participant_count
from server_app.runs.records.reader import Run

LAST, LAST_FIVE, BEST = "last round", "mean of the last five", "best by validation"
READINGS = (LAST, LAST_FIVE, BEST)
WINDOW = 5


def readings(run: Run) -> dict[str, float]:
    """Return a run's accuracy in the three ways that papers report it; NaN if not available.

    "Last round" is before a stage that follows training. The mean of the last five rounds needs all
    five to be evaluated. The best round is the one with the best validation accuracy, the earliest
    of equals; choosing it by test accuracy would bias the result. As many clients have validated it
    as any other. If a part of the clients trains in a round there is no choice, as they validate a
    model that they have just trained.
    """
    scored = run.series[run.split, "accuracy"]
    validated = run.series.get(("validation", "accuracy"), {})
    clients = run.series.get(("validation", "clients"), {})
    last = max(scored)
    window = [value for at, value in scored.items() if at > last - WINDOW and at > 0]
    every = [at for at in sorted(scored) if at in validated] if run.split == "test" else []
    rounds = [at for at in every if clients.get(at) == max(clients.values(), default=None)]
    number = run.config["num_clients"]
    partial = participant_count(number, run.config["rho"]) < number
    return {
        LAST: scored[last],
        LAST_FIVE: float(np.mean(window)) if len(window) == WINDOW else math.nan,
        BEST: scored[max(rounds, key=lambda at: validated[at])]
        if (len(rounds) > 1 and not partial) or len(every) == 1
        else math.nan,
    }
