"""Tables of runs on a virtual clock: time to an accuracy, and who takes part."""

import numpy as np
import pandas as pd

from univarfl.records.labels import label_of
from univarfl.records.reader import Run
from univarfl.report.spent.participation import in_words, participation_of
from univarfl.report.statistics import all_equal, limits, mean_and_sd
from univarfl.report.summary import Summary, first_at

TARGET = 0.85
WAITS = "uniform"  # the policy that waits for every client


def by_pace(summary: Summary) -> list[pd.DataFrame]:
    """Return time to accuracy, and the participation of fast and slow clients.

    The first table has the test accuracy in %, the simulated seconds and the megabytes sent until
    the target, and the seconds relative to rounds that wait for everybody, with the same seeds.
    The second says who takes part, as a report does.
    """
    found: dict[tuple[str, str], list[Run]] = {}
    for run in summary.runs:
        found.setdefault((run.config["method"]["name"], pace(run)), []).append(run)
    times, shares = [], []
    for method, name in sorted(found, key=lambda key: (key[0], key[1] != WAITS, key[1])):
        runs = found[method, name]
        head = {"method": label_of("method", method), "rounds": name}
        times.append({**head, **speed(runs, found[method, WAITS])})
        shares.append({**head, **in_words(map(participation_of, runs))})
    return [pd.DataFrame(times), pd.DataFrame(shares)]


def speed(runs: list[Run], waiting: list[Run]) -> dict[str, object]:
    """Return accuracy, time to the target, and the change of the time against rounds that wait."""
    own, usual = (
        pd.Series({run.config["seed"]: seconds_to(run) for run in some}, dtype=float).dropna()
        for some in (runs, waiting)
    )
    sent = pd.Series([megabytes_to(run) for run in runs], dtype=float).dropna()
    whole = pd.Series([last(run) for run in runs])
    accuracy = pd.Series([100 * run.record.results.test["accuracy"] for run in runs])
    return {
        "accuracy": mean_and_sd(accuracy),
        "simulated seconds": mean_and_sd(whole, ".0f"),
        f"seconds to {100 * TARGET:.0f} %": mean_and_sd(own, ".0f") if len(own) else "never",
        "reached by": f"{len(own)} of {len(runs)}",
        "MB sent until then": mean_and_sd(sent, ".0f") if len(sent) else "",
        "change of the time, %": "" if runs is waiting else change_of(own, usual, len(runs)),
    }


def change_of(own: "pd.Series[float]", usual: "pd.Series[float]", seeds: int) -> str:
    """Return the change of a time in %, with its interval, over the seeds that reached it twice.

    Both are computed from the logarithm of the ratio, so that no time is below zero.

    Args:
        own: seconds by seed.
        usual: those that it is compared with.
        seeds: how many seeds there are.
    """
    logs = np.log(own / usual).dropna()
    if not len(logs):
        return ""
    logarithms = [logs.mean(), *(() if all_equal(logs) else limits(logs))]
    mean, *ends = (f"{100 * np.expm1(value):+.0f}" for value in logarithms)
    around = f" ({' to '.join(ends)})" if ends else ""
    return f"{mean}{around}" + (f", {len(logs)} of {seeds} seeds" if len(logs) < seeds else "")


def pace(run: Run) -> str:
    """Return strategy and buffer size if it waits for no client, else who takes part."""
    strategy, policy = run.config["strategy"], run.config["participation"]
    if strategy["name"] == "fedbuff":
        return f"FedBuff, {strategy['buffer_size']:2} updates"
    return str(policy["name"])


def seconds_at(run: Run, at: int) -> float:
    """Return the simulated seconds at the end of a round."""
    return run.series["train", "simulated_seconds"][at]


def seconds_to(run: Run) -> float | None:
    """Return the simulated seconds until the target; None if it was not reached."""
    at = first_at(run, TARGET)
    return None if at is None else seconds_at(run, max(at, 1))


def last(run: Run) -> float:
    """Return the simulated seconds of all rounds."""
    return seconds_at(run, run.record.last_round)


def megabytes_to(run: Run) -> float | None:
    """Return the megabytes that clients sent until the target; None if it was not reached."""
    at = first_at(run, TARGET)
    if at is None:
        return None
    updates = sum(count for number, count in run.series["train", "clients"].items() if number <= at)
    return updates * (run.record.reply_bytes or 0) / 1e6
