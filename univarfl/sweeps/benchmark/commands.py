"""The command of each row of a benchmark in each cell."""

import shlex

import pandas as pd

from univarfl.records.labels import label_of
from univarfl.sweeps.benchmark.outcome import BenchmarkRuns
from univarfl.sweeps.benchmark.plan import Entry

TUNED, OWN = "tuned", "own"  # rows with the chosen value, and with the method's own values


def commands(outcome: BenchmarkRuns) -> pd.DataFrame:
    """Return the command of each row in each cell."""
    first: dict[tuple[str, str, str], Entry] = {}
    for method in outcome.plan.methods:
        for entry in outcome.rows(method):
            first.setdefault((method, entry.cell, entry.value), entry)
    seeds = ",".join(map(str, outcome.plan.seeds))
    return pd.DataFrame(
        {
            "method": label_of("method", method),
            "cell": cell,
            "row": TUNED if value else OWN,
            "command": command(entry, seeds, outcome.plan.cells[cell]),
        }
        for (method, cell, value), entry in first.items()
    )


def command(entry: Entry, seeds: str, cell: str) -> str:
    """Return the command that runs an entry's row in its cell, with the plan's own words."""
    value = [entry.value] if entry.value else []
    words = [*shlex.split(cell), f"method={entry.method}", *value, f"seed={seeds}"]
    return f"univarfl sweep {shlex.join(words)}"
