"""The table of bytes and accuracy by the numbers in which updates are sent."""

from collections.abc import Mapping, Sequence

import pandas as pd

from univarfl.records.labels import label_of
from univarfl.records.reader import Run
from univarfl.report.statistics import difference, mean_and_sd
from univarfl.report.summary import Summary

KILOBYTE = 1000
LAST = 5  # rounds
READINGS = {"last round": 1, "mean of the last five": LAST}


def by_format(summary: Summary) -> list[pd.DataFrame]:
    """Return, by method and format, what a client sends in a round, and test accuracies in %.

    Beside each accuracy is its difference from that of float32 with the same seeds.
    """
    found: dict[str, dict[str, Sequence[Run]]] = {}
    for runs in summary.counted.values():
        config = runs[0].config
        method = label_of("method", config["method"]["name"])
        found.setdefault(method, {})[name_of(config["update"])] = runs
    rows = []
    for method, by in found.items():
        for name in sorted(by, key=lambda name: (name != "float32", name)):
            sent = by[name][0].record.reply_bytes
            assert sent
            row = {"method": method, "update": name, "kB sent": f"{sent / KILOBYTE:,.0f}"}
            row["seeds"] = str(len(by[name]))
            for reading, rounds in READINGS.items():
                values = accuracies(by[name], rounds)
                row[reading] = mean_and_sd(values)
                if name != "float32":
                    minus = values - accuracies(by["float32"], rounds)
                    row[f"minus float32, {reading}"] = difference(minus, "+.1f")
            rows.append(row)
    return [pd.DataFrame(rows).fillna("")]


def name_of(update: Mapping[str, object]) -> str:
    """Return a format as the table names it."""
    alone = update["format"] != "float32" and not update["error_feedback"]
    return f"{update['format']}{', no feedback' if alone else ''}"


def accuracies(runs: Sequence[Run], rounds: int) -> "pd.Series[float]":
    """Return by seed the mean test accuracy in % over the last rounds."""
    return pd.Series(
        {
            run.config["seed"]: 100
            * pd.Series(run.series["test", "accuracy"]).sort_index().iloc[-rounds:].mean()
            for run in runs
        }
    )
