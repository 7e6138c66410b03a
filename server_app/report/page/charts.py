"""The curves of a report as numbers, which the page draws."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from server_app.report.pictures import over_rounds, split_of
from server_app.report.summary import Summary
from server_app.runs.records.reader import Run

DIGITS = 5
ACCURACY, LOSS, TIME = (
    "Accuracy over the rounds", "Loss over the rounds", "Accuracy over time"
)  # fmt: skip
Chart = dict[str, Any]


def charts(summary: Summary) -> dict[str, list[Chart]]:
    """Return the charts by section, one for each setting; a section without curves is left out."""
    methods = list(dict.fromkeys(method for _, method in summary.counted))
    sections: dict[str, list[Chart]] = {ACCURACY: [], LOSS: [], TIME: []}
    for setting in dict.fromkeys(setting for setting, _ in summary.counted):
        runs = {method: found for (at, method), found in summary.counted.items() if at == setting}
        accuracy = f"{split_of(runs)} accuracy, %"
        for section, x, y in (
            (ACCURACY, "round", accuracy),
            (LOSS, "round", "training cross-entropy"),
            (TIME, "seconds in rounds", accuracy),
        ):
            drawn = [
                series_of(section, found, method, methods.index(method))
                for method, found in runs.items()
            ]
            series = [one for one in drawn if one["x"]]
            if series:
                chart = {"title": setting, "x": x, "y": y, "log": section == LOSS, "series": series}
                sections[section].append(chart)
    return {section: found for section, found in sections.items() if found}


def series_of(section: str, runs: Sequence[Run], method: str, style: int) -> Chart:
    """Return a method's curve: mean over seeds, and one standard deviation below and above."""
    split, metric = ("train", "ce") if section == LOSS else (runs[0].split, "accuracy")
    rounds, values = over_rounds(runs, split, metric)
    values = values if section == LOSS else 100 * values
    places = rounds.astype(float)
    if section == TIME:
        _, seconds = over_rounds(runs, "train", "seconds")
        places = np.concatenate([[0.0], np.cumsum(seconds.mean(axis=0))])[rounds]
    chart = {
        "name": method,
        "style": style,
        "x": rounded(places),
        "y": rounded(values.mean(axis=0)),
    }
    if len(values) > 1:
        spread = values.std(axis=0, ddof=1)
        chart["low"] = rounded(values.mean(axis=0) - spread)
        chart["high"] = rounded(values.mean(axis=0) + spread)
    return chart


def rounded(values: np.ndarray) -> list[float | None]:
    """Return numbers with few digits; None for those that JSON lacks."""
    return [float(f"{value:.{DIGITS}g}") if np.isfinite(value) else None for value in values]
