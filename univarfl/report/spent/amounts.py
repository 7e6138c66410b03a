"""The simulated seconds and the megabytes that a run has spent after each round."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from univarfl.records.reader import Run

MEGABYTE = 1_000_000
SIMULATED = ("train", "simulated_seconds")


@dataclass(frozen=True)
class Amount:
    """What a run spends.

    Attributes:
        label: its name with the unit, for an axis or a column.
        spent: returns the amount spent since the start of a run, by round; empty if unknown.
    """

    label: str
    spent: Callable[[Run], Mapping[int, float]]


def simulated_seconds(run: Run) -> dict[int, float]:
    """Return the time on the run's virtual clock at the end of each round; 0 after round 0."""
    points = run.series.get(SIMULATED, {})
    return {0: 0.0, **points} if points else {}


def megabytes_sent(run: Run) -> dict[int, float]:
    """Return the megabytes that accepted participants have sent by the end of each round."""
    size, accepted = run.record.reply_bytes, run.series.get(("train", "clients"), {})
    if size is None or not accepted:
        return {}
    total, found = 0.0, {0: 0.0}
    for at in sorted(accepted):
        total += accepted[at] * size / MEGABYTE
        found[at] = total
    return found


SECONDS = Amount("simulated seconds", simulated_seconds)
MEGABYTES = Amount("MB sent", megabytes_sent)


def has_simulated_time(run: Run) -> bool:
    """Return whether a run has a virtual clock."""
    return SIMULATED in run.series


def accuracy_by(run: Run, amount: Amount) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the amounts spent [points], ascending, and the accuracies then, in % [points]."""
    spent, scored = amount.spent(run), run.series[run.split, "accuracy"]
    rounds = [at for at in sorted(scored) if at in spent]
    amounts = np.maximum.accumulate([spent[at] for at in rounds]) if rounds else np.empty(0)
    return amounts, 100 * np.array([scored[at] for at in rounds])


def spent_until(run: Run, target: float, amount: Amount) -> float:
    """Return what was spent when a round first had the target accuracy; NaN if none had.

    Args:
        run: the run.
        target: an accuracy in %.
        amount: what is spent.
    """
    amounts, accuracies = accuracy_by(run, amount)
    reached = amounts[accuracies >= target]
    return float(reached[0]) if len(reached) else np.nan


def all_spent_until(runs: Sequence[Run], target: float, amount: Amount) -> dict[int, float]:
    """Return `spent_until` by seed."""
    return {run.config["seed"]: spent_until(run, target, amount) for run in runs}
