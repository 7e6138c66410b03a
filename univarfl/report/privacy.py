"""The privacy that the runs of a report spent, as a table."""

from operator import attrgetter

import pandas as pd

from task.privacy.description import FROM_SEED
from univarfl.report.section import Section
from univarfl.report.summary import Summary

NOTE = (
    "Epsilon bounds how much one person's data can change what is published; smaller is better, "
    "and above 10 it promises little. Each run.json says what epsilon does not cover."
)


def privacy(summary: Summary) -> Section:
    """Return what the runs spent."""
    return Section("Privacy", NOTE, table=privacy_table(summary))


def privacy_table(summary: Summary) -> pd.DataFrame:
    """Return a row for each setting and method with noise; empty if there is none.

    Runs of equal settings spend the same, unless a round was repeated. The row has the largest
    epsilon.
    """
    rows = []
    for (setting, method), runs in summary.counted.items():
        all_spent = [spent for run in runs if (spent := run.record.privacy)]
        if all_spent:
            accounted = all(isinstance(spent.epsilon, float) for spent in all_spent)
            spent = max(all_spent, key=attrgetter("epsilon")) if accounted else all_spent[0]
            rows.append(
                {
                    "setting": setting, "method": method,
                    "epsilon": f"{spent.epsilon:.2f}" if accounted else spent.epsilon,
                    "delta": "" if spent.delta is None else f"{spent.delta:g}",
                    "protected": spent.unit,
                    "noise": spent.noise,
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def studies_without_protection(summary: Summary) -> list[str]:
    """Return a warning if the noise of a run follows from its seed."""
    found = [
        run.directory.name
        for runs in summary.counted.values()
        for run in runs
        if (spent := run.record.privacy) and spent.noise == FROM_SEED
    ]
    if not found:
        return []
    others = f" and {len(found) - 1} more" if found[1:] else ""
    warning = (
        f"The noise of {found[0]}{others} follows from the seed (privacy.reproducible=true). "
        "Anyone who knows the seed can remove it, so these runs protect nobody."
    )
    return [warning]
