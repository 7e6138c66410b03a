"""The table of the simulated time and the megabytes until a target accuracy."""

from collections.abc import Iterable, Iterator, Sequence

import pandas as pd

from univarfl.records.reader import Run
from univarfl.report.readings import LAST, readings
from univarfl.report.section import Section
from univarfl.report.spent.amounts import MEGABYTES, SECONDS, Amount, all_spent_until
from univarfl.report.spent.charts import timed_groups
from univarfl.report.statistics import CONFIDENCE, difference
from univarfl.report.summary import Summary

TITLE = "Simulated time to a target"
NOTE = (
    "What was spent at the end of the first scored round at or above the target: mean over seeds, "
    f"with Student's {CONFIDENCE:.0%} interval of the mean. Where not every seed reached the "
    "target, the mean is that of the others, too small, and has no interval. The default target "
    "is the lowest mean accuracy after the last round in this table."
)
NEVER = "never"


def simulated_targets(summary: Summary, targets: Sequence[float]) -> Section:
    """Return what was spent until a target accuracy; see `targets_table`."""
    return Section(TITLE, NOTE, table=targets_table(summary, targets))


def targets_table(summary: Summary, targets: Sequence[float]) -> pd.DataFrame:
    """Return a row for each setting and method whose runs have a virtual clock, and each target.

    Args:
        summary: the runs.
        targets: accuracies from 0 to 1; if empty, the lowest mean accuracy after the last round.
    """
    groups = timed_groups(summary)
    rows = []
    for key, runs in groups.items():
        for target in targets or [lowest_last(groups.values())]:
            row = {**summary.heads[key], "target, %": f"{100 * target:.1f}"}
            for amount in (SECONDS, MEGABYTES):
                row[amount.label] = spent_in_words(runs, 100 * target, amount)
            rows.append(row)
    return pd.DataFrame(rows)


def spent_in_words(runs: Sequence[Run], target: float, amount: Amount) -> str:
    """Return what runs spent until a target accuracy in %, as mean and interval over seeds."""
    if not any(amount.spent(run) for run in runs):
        return ""
    found = pd.Series(all_spent_until(runs, target, amount)).dropna()
    if not len(found):
        return NEVER
    if len(found) < len(runs):
        return f"{found.mean():.1f} ({len(found)} of {len(runs)} seeds)"
    return difference(found, ".1f")


def lowest_last(groups: Iterable[Sequence[Run]]) -> float:
    """Return the lowest mean accuracy after the last round, from 0 to 1, of groups of runs."""
    return min(sum(readings(run)[LAST] for run in runs) / len(runs) for runs in groups)


def compared(first: Sequence[Run], second: Sequence[Run]) -> Iterator[str]:
    """Yield a line on the simulated time, and one on the megabytes, until the lower last accuracy.

    Args:
        first: the runs of one experiment, with a virtual clock and one for each seed.
        second: those of another.
    """
    target = 100 * lowest_last([first, second])
    for amount in (SECONDS, MEGABYTES):
        words = [spent_in_words(runs, target, amount) for runs in (first, second)]
        if not all(words):
            continue
        one, other = (pd.Series(all_spent_until(runs, target, amount)) for runs in (first, second))
        pairs = (other - one).dropna()
        line = f"{amount.label} until {target:.1f} %: {words[0]} and {words[1]}"
        if len(pairs):
            seeds = f"{len(pairs)} seed{'s' if len(pairs) > 1 else ''}"
            line += f"; second - first: {difference(pairs, '+.1f')} over {seeds}"
        yield line
