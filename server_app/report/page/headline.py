"""The result of a report in words."""

from collections.abc import Iterator

import pandas as pd

from server_app.report.labels import label_of
from server_app.report.statistics import CONFIDENCE, all_equal, interval
from server_app.report.summary import LAST, LAST_FIVE, Summary

LEAST_SEEDS = 5  # an interval from fewer seeds is too wide for a headline
MOST_LINES = 4
# Both are always given: choosing the reading with the larger difference would bias the result.
HEADLINED = {LAST: "last round", LAST_FIVE: "mean of the last five rounds"}
OWN = label_of("method", "univarfl")  # the method of the headline if several were compared
NUMBERS = ("five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def headlines(summary: Summary, baseline: str | None) -> list[str]:
    """Return the difference from the baseline in words, a line for each setting and reading.

    A setting gives a line if one method was compared with the baseline, or UniVarFL among others,
    on `LEAST_SEEDS` seeds or more.
    """
    lines = list(lines_of(summary, baseline))
    return lines if len(lines) <= MOST_LINES else []


def lines_of(summary: Summary, baseline: str | None) -> Iterator[str]:
    """Yield the lines of each setting that gives some."""
    settings = list(dict.fromkeys(setting for setting, _ in summary.counted))
    for setting in settings:
        base = baseline or summary.baseline(setting)
        others = [method for at, method in summary.counted if at == setting and method != base]
        chosen = others if len(others) == 1 else [name for name in others if name == OWN]
        frame = summary.frame[summary.frame["setting"] == setting]
        for method in chosen:
            one, other = (
                frame[frame["method"] == name].set_index("seed")[[*HEADLINED]]
                for name in (base, method)
            )
            for reading, words in HEADLINED.items():
                pairs = (100 * (other[reading] - one[reading])).dropna()
                if len(pairs) >= LEAST_SEEDS:
                    among = f"one of {len(others)} methods compared" if len(others) > 1 else ""
                    where = setting if len(settings) > 1 else ""
                    facts = ", ".join(filter(None, [words, where, among]))
                    yield f"{method} {difference_in_words(pairs, base)} ({facts})"


def difference_in_words(pairs: "pd.Series[float]", base: str) -> str:
    """Return a mean difference, its interval and the number of seeds."""
    text = f"{pairs.mean():+.1f} points over {base}"
    if all_equal(pairs):
        return f"{text}, the same for each of {counted(len(pairs))} seeds"
    limits = interval(pairs)
    low, high = (float(limit) for limit in limits.split(" to "))
    verdict = "" if low > 0 or high < 0 else ", not significant"
    return f"{text}, {100 * CONFIDENCE:.0f} % {limits}, {counted(len(pairs))} seeds{verdict}"


def counted(seeds: int) -> str:
    """Return a number of seeds, small ones as a word."""
    place = seeds - LEAST_SEEDS
    return NUMBERS[place] if 0 <= place < len(NUMBERS) else str(seeds)
