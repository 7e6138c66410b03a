"""The result of a report in words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from univarfl.records.labels import label_of
from univarfl.report.readings import EXACT, LAST, LAST_FIVE
from univarfl.report.statistics import CONFIDENCE, all_equal, interval, limits
from univarfl.report.summary import Summary

LEAST_SEEDS = 5  # an interval from fewer seeds is too wide for a headline
MOST_LINES = 6
# All are always given: choosing the reading with the largest difference would bias the result.
HEADLINED = {
    LAST: "last round",
    LAST_FIVE: "mean of the last five rounds",
    EXACT: "last round, batch norm's statistics of all images",
}
OWN = label_of("method", "univarfl")  # the method of the headline if several were compared
ABOVE, BELOW, UNCLEAR = "above", "below", "not significant"
NUMBERS = ("five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


@dataclass(frozen=True)
class Difference:
    """A method's paired difference from the baseline, in one setting and reading.

    Attributes:
        setting: the setting.
        reading: one of `HEADLINED`.
        method: the method.
        base: the baseline.
        others: how many methods were compared with the baseline.
        pairs: the differences in percentage points by seed.
    """

    setting: str
    reading: str
    method: str
    base: str
    others: int
    pairs: "pd.Series[float]"

    @property
    def verdict(self) -> str:
        """Whether the difference is above 0, below it, or not significant."""
        if all_equal(self.pairs):
            low = high = self.pairs.mean()
        else:
            low, high = (round(limit, 9) for limit in limits(self.pairs))
        return ABOVE if low > 0 else BELOW if high < 0 else UNCLEAR


def headlines(summary: Summary, baseline: str | None) -> list[str]:
    """Return the differences from the baseline in words.

    A setting gives a line for each reading if one method was compared with the baseline, or
    UniVarFL among others, on `LEAST_SEEDS` seeds or more. Many settings are counted instead.
    """
    found = list(differences(summary, baseline))
    several = len({setting for setting, _ in summary.counted}) > 1
    if len(found) <= MOST_LINES:
        return [in_words(one, several) for one in found]
    groups: dict[tuple[str, str, str], list[Difference]] = {}
    for one in found:
        groups.setdefault((one.reading, one.method, one.base), []).append(one)
    return [counts_in_words(of) for of in groups.values()] if len(groups) <= MOST_LINES else []


def differences(summary: Summary, baseline: str | None) -> Iterator[Difference]:
    """Yield the differences of which the headline speaks."""
    for setting in dict.fromkeys(setting for setting, _ in summary.counted):
        base = baseline or summary.baseline(setting)
        others = [method for at, method in summary.counted if at == setting and method != base]
        chosen = others if len(others) == 1 else [name for name in others if name == OWN]
        frame = summary.frame[summary.frame["setting"] == setting]
        for method in chosen:
            one, other = (
                frame[frame["method"] == name].set_index("seed")[[*HEADLINED]]
                for name in (base, method)
            )
            for reading in HEADLINED:
                pairs = (100 * (other[reading] - one[reading])).dropna()
                if len(pairs) >= LEAST_SEEDS:
                    yield Difference(setting, reading, method, base, len(others), pairs)


def in_words(one: Difference, several: bool) -> str:
    """Return one difference as a line; `several` says whether there are other settings."""
    among = f"one of {one.others} methods compared" if one.others > 1 else ""
    where = one.setting if several else ""
    facts = ", ".join(filter(None, [HEADLINED[one.reading], where, among]))
    return f"{one.method} {difference_in_words(one)} ({facts})"


def counts_in_words(of: Sequence[Difference]) -> str:
    """Return in how many settings a method is above the baseline, below it, or neither."""
    verdicts = [one.verdict for one in of]
    parts = [f"{verdict} in {verdicts.count(verdict)}" for verdict in (ABOVE, BELOW)]
    first = of[0]
    return (
        f"{first.method} compared with {first.base} in {len(of)} settings: {', '.join(parts)}, "
        f"{UNCLEAR} in {verdicts.count(UNCLEAR)} ({HEADLINED[first.reading]}, "
        f"{100 * CONFIDENCE:.0f} % intervals)"
    )


def difference_in_words(one: Difference) -> str:
    """Return a mean difference, its interval and the number of seeds."""
    pairs = one.pairs
    text = f"{pairs.mean():+.1f} points over {one.base}"
    if all_equal(pairs):
        return f"{text}, the same for each of {counted(len(pairs))} seeds"
    verdict = f", {UNCLEAR}" if one.verdict == UNCLEAR else ""
    seeds = counted(len(pairs))
    return f"{text}, {100 * CONFIDENCE:.0f} % {interval(pairs)}, {seeds} seeds{verdict}"


def counted(seeds: int) -> str:
    """Return a number of seeds, small ones as a word."""
    place = seeds - LEAST_SEEDS
    return NUMBERS[place] if 0 <= place < len(NUMBERS) else str(seeds)
