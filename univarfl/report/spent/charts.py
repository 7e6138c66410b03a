"""The charts of accuracy over simulated seconds and over megabytes sent."""

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.special import stdtrit

from univarfl.records.reader import Run
from univarfl.report.charts.base import Chart, Plot, Series, slug
from univarfl.report.section import Section, sections_of
from univarfl.report.settings import ALL
from univarfl.report.spent.amounts import (
    MEGABYTES,
    SECONDS,
    Amount,
    accuracy_by,
    has_simulated_time,
)
from univarfl.report.statistics import CONFIDENCE
from univarfl.report.summary import Summary

OVER_SECONDS, OVER_MEGABYTES = "Accuracy over simulated time", "Accuracy over megabytes sent"
PLACES = 101  # of a mean curve
MOST_TOGETHER = 12  # curves of one chart; with more, each setting has its own
BAND = (
    f"With several seeds: their mean, with a band of Student's {CONFIDENCE:.0%} interval of the "
    "mean, up to the end of the shortest run; between two scored rounds a run's accuracy is "
    "interpolated."
)
NOTES = {
    OVER_SECONDS: "Seconds of the virtual clock, on which clients compute and send at the speeds "
    f"that the run gives them. {BAND}",
    OVER_MEGABYTES: "Megabytes that the accepted participants sent to the server, computed from "
    f"the size of a reply. {BAND}",
}
Key = tuple[str, str]  # the setting and the method of runs that differ in their seeds alone


def spent(summary: Summary) -> list[Section]:
    """Return the sections with `spent_charts`."""
    return sections_of(spent_charts(summary), NOTES)


def spent_charts(summary: Summary) -> Iterator[Chart]:
    """Yield the charts of the runs that have a virtual clock.

    Different settings, such as two strategies, are drawn into one chart if there are few curves.
    """
    parts = curves_by_chart(summary)
    for section, name, amount in (
        (OVER_SECONDS, "simulated", SECONDS),
        (OVER_MEGABYTES, "megabytes", MEGABYTES),
    ):
        for title, curves in parts.items():
            drawn = [curve_of(label, style, runs, amount) for label, style, runs in curves]
            if series := [one for one in drawn if one is not None]:
                figure = Plot(amount.label, "accuracy, %", series)
                yield Chart(section, title, f"{name}-{slug(title or ALL)}", figure)


def curves_by_chart(summary: Summary) -> dict[str, list[tuple[str, int, list[Run]]]]:
    """Return the name, the style and the runs of each curve, by the title of its chart."""
    groups = timed_groups(summary)
    if 1 < len({setting for setting, _ in groups}) <= len(groups) <= MOST_TOGETHER:
        named = enumerate(groups.items())
        return {"": [(f"{key[1]}, {key[0]}", style, runs) for style, (key, runs) in named]}
    methods = list(dict.fromkeys(method for _, method in summary.counted))
    found: dict[str, list[tuple[str, int, list[Run]]]] = {}
    for (setting, method), runs in groups.items():
        title = "" if setting == ALL else setting
        found.setdefault(title, []).append((method, methods.index(method), runs))
    return found


def timed_groups(summary: Summary) -> dict[Key, list[Run]]:
    """Return the runs that have a virtual clock, by setting and method."""
    timed = {
        key: [run for run in runs if has_simulated_time(run)]
        for key, runs in summary.counted.items()
    }
    return {key: runs for key, runs in timed.items() if runs}


def curve_of(name: str, style: int, runs: Sequence[Run], amount: Amount) -> Series | None:
    """Return the mean accuracy of runs by what they had spent; None if that is unknown.

    Several runs have an interval of the mean, and values at `PLACES` amounts that all reached.
    """
    found = [curve for run in runs if len((curve := accuracy_by(run, amount))[0])]
    if len(found) < 2:
        return Series(name, style, *(values.tolist() for values in found[0])) if found else None
    places = np.linspace(0, min(spent[-1] for spent, _ in found), PLACES)
    values = np.array([np.interp(places, spent, accuracies) for spent, accuracies in found])
    mean = values.mean(axis=0)
    factor = stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2) / np.sqrt(len(values))
    half = factor * values.std(axis=0, ddof=1)
    low, high = (np.clip(edge, 0, 100).tolist() for edge in (mean - half, mean + half))
    return Series(name, style, places.tolist(), mean.tolist(), low, high)
