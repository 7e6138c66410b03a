"""Tidy tables of results: runs, means over seeds, targets reached, paired differences."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from scipy import stats

from server_app.published import beside
from server_app.report.records import Run, tables_of
from server_app.report.settings import Setting, method_labels, settings_of, shown, told

LAST, LAST_FIVE, BEST = "last round", "mean of the last five", "best by validation"
READINGS = (LAST, LAST_FIVE, BEST)
FURTHER = ("loss", "balanced_accuracy", "macro_f1", "calibration_error")
WINDOW = 5
CONFIDENCE = 0.95
BASELINE = "fedavg"


@dataclass(frozen=True)
class Summary:
    """Completed runs, and what they say together.

    Args:
        runs: every completed run, oldest first; of runs of the same settings and seed the latest
            counts, whatever code, engine or device it ran with.
    """

    runs: list[Run]

    @cached_property
    def frame(self) -> pd.DataFrame:
        """A row a run: method, setting, seed, every reading of its accuracy, and its metrics."""
        rows = []
        labels = method_labels(self.runs)
        for run, method, setting in zip(self.runs, labels, self._settings, strict=True):
            further = {name: last_of(run, name) for name in FURTHER if ("test", name) in run.series}
            rows.append(
                {
                    "setting": told(setting), **dict(setting), "method": method,
                    "seed": run.config["seed"], **readings(run), **further,
                    "seconds": sum(run.series["train", "seconds"].values()),
                    "run": run.directory.name,
                }
            )  # fmt: skip
        frame = pd.DataFrame(rows)
        kept = frame.drop_duplicates(["setting", "method", "seed"], keep="last")
        return kept.sort_values([*self.keys, "method", "seed"], kind="stable")

    @cached_property
    def keys(self) -> list[str]:
        """The settings that differ among the runs."""
        return [key for key, _ in self._settings[0]] if self.runs else []

    @cached_property
    def counted(self) -> dict[tuple[str, str], list[Run]]:
        """The runs that count, by setting and method, in the order of their seeds."""
        by_name = {run.directory.name: run for run in self.runs}
        return {
            (str(setting), str(method)): [by_name[name] for name in part["run"]]
            for (setting, method), part in self.frame.groupby(["setting", "method"], sort=False)
        }

    @cached_property
    def _settings(self) -> list[Setting]:
        return settings_of(self.runs)

    @property
    def set_aside(self) -> int:
        """How many runs a later run of the same settings and seed stands in for."""
        return len(self.runs) - len(self.frame)

    def glance(self) -> pd.DataFrame:
        """The last round's mean and deviation, in %: a row a method, a column a setting."""
        rows: dict[str, dict[str, str]] = {}
        for setting, method in self.counted:
            values = 100 * self._part(setting, method)[LAST]
            rows.setdefault(method, {"method": method})[setting] = mean_and_sd(values)
        return pd.DataFrame(rows.values()).fillna("")

    def accuracies(self) -> pd.DataFrame:
        """Mean, standard deviation and number of seeds of each reading, in %; published beside."""
        rows = []
        for (setting, method), runs in self.counted.items():
            part = self._part(setting, method)
            row = {**self._head(part), "seeds": len(part)}
            for reading in READINGS:
                row[reading] = mean_and_sd(100 * part[reading])
            row["published"] = "; ".join(published(runs[-1]))
            rows.append(row)
        frame = pd.DataFrame(rows)
        return frame if frame["published"].any() else frame.drop(columns="published")

    def further(self) -> pd.DataFrame:
        """The other metrics of the last round, of the test set."""
        names = [name for name in FURTHER if name in self.frame]
        rows = []
        for setting, method in self.counted:
            part = self._part(setting, method)
            row = self._head(part)
            for name in names:
                row[name.replace("_", " ")] = mean_and_sd(part[name], ".3f")
            row["seconds"] = mean_and_sd(part["seconds"])
            rows.append(row)
        return pd.DataFrame(rows)

    def tidy(self) -> pd.DataFrame:
        """Every mean as a number: a row for each setting, method, metric and reading of it."""
        readings = [("accuracy", reading, reading) for reading in READINGS]
        further = [(name, LAST, name) for name in (*FURTHER, "seconds") if name in self.frame]
        rows = []
        for setting, method in self.counted:
            part = self._part(setting, method)
            head = {key: part.iloc[0][key] for key in [*self.keys, "method"]}
            for metric, reading, column in readings + further:
                values = part[column].dropna()
                counts = {"seeds": len(values), "mean": values.mean(), "sd": values.std(ddof=1)}
                rows.append({**head, "metric": metric, "reading": reading, **counts})
        return pd.DataFrame(rows)

    def targets(self, targets: Sequence[float]) -> pd.DataFrame:
        """Rounds until each target accuracy was first reached, and by how many of the seeds.

        Args:
            targets: shares of 1; if there are none, each setting's is what its baseline ends at.
        """
        rows = []
        for (setting, method), runs in self.counted.items():
            row = self._head(self._part(setting, method))
            for target in targets or [self._usual_target(setting)]:
                rounds = [at for run in runs if (at := first_at(run, target)) is not None]
                mean = f"{np.mean(rounds):.1f}" if rounds else "never"
                missing = (
                    f" ({len(rounds)} of {len(runs)} seeds)" if len(rounds) < len(runs) else ""
                )
                head = f"rounds to {100 * target:.1f} %" if targets else "rounds"
                if not targets:
                    row["target, %"] = f"{100 * target:.1f}"
                row[head] = mean + missing
            rows.append(row)
        return pd.DataFrame(rows)

    def differences(self, baseline: str | None = None) -> pd.DataFrame:
        """Each method's accuracy minus the baseline's on the same seeds, in points."""
        rows = []
        for setting in dict.fromkeys(setting for setting, _ in self.counted):
            name = baseline or self.baseline(setting)
            base = self._part(setting, name).set_index("seed")[list(READINGS)]
            for other in [method for at, method in self.counted if at == setting]:
                part = self._part(setting, other)
                pairs = 100 * (part.set_index("seed")[list(READINGS)] - base).dropna(how="all")
                if other != name and len(pairs):
                    head = {**self._head(part), "minus": name, "pairs": len(pairs)}
                    rows.append(head | {of: difference(pairs[of], "+.1f") for of in READINGS})
        return pd.DataFrame(rows)

    def runs_as_shown(self) -> pd.DataFrame:
        """A row a run, as `frame` has them, its settings as a person writes them."""
        return self.frame.drop(columns="setting").assign(
            **{key: self.frame[key].map(shown) for key in self.keys}
        )

    def baseline(self, setting: str) -> str:
        """What a setting's methods are compared with: FedAvg, or else the first of them."""
        methods = [method for at, method in self.counted if at == setting]
        return BASELINE if BASELINE in methods else methods[0]

    def _usual_target(self, setting: str) -> float:
        return float(self._part(setting, self.baseline(setting))[LAST].mean())

    def _part(self, setting: str, method: str) -> pd.DataFrame:
        frame = self.frame
        return frame[(frame["setting"] == setting) & (frame["method"] == method)]

    def _head(self, part: pd.DataFrame) -> dict[str, object]:
        return {key: shown(part.iloc[0][key]) for key in [*self.keys, "method"]}


def readings(run: Run) -> dict[str, float]:
    """A run's accuracy, read in each of the ways that papers read it; NaN where it cannot be.

    "Last round" is the final model. The mean of the last five needs all five to be scored. The best
    round is chosen by validation, the earliest of equals, among those after which the test set was
    scored; choosing it by what is reported would be peeking.
    """
    scored = run.series[run.split, "accuracy"]
    validated = run.series.get(("validation", "accuracy"), {})
    last = max(scored)
    window = [value for at, value in scored.items() if at > last - WINDOW and at > 0]
    rounds = [at for at in sorted(scored) if at in validated] if run.split == "test" else []
    return {
        LAST: scored[last],
        LAST_FIVE: float(np.mean(window)) if len(window) == WINDOW else math.nan,
        BEST: scored[max(rounds, key=lambda at: validated[at])] if rounds else math.nan,
    }


def last_of(run: Run, metric: str) -> float:
    """A test metric after the last round."""
    points = run.series["test", metric]
    return points[max(points)]


def first_at(run: Run, target: float) -> int | None:
    """The first round whose accuracy is at least the target."""
    scored = run.series[run.split, "accuracy"]
    return min((at for at, value in scored.items() if value >= target), default=None)


def published(run: Run) -> list[str]:
    """The papers' numbers of the run's very settings."""
    if run.split != "test":
        return []
    return [f"{cell} ({name})" for name, cell in beside(run.config, tables_of(run.config))]


def mean_and_sd(values: "pd.Series[float]", form: str = ".1f") -> str:
    """Mean ± standard deviation of the sample; the mean alone of one value, nothing of none."""
    values = values.dropna()
    if not len(values):
        return ""
    mean = format(values.mean(), form)
    return f"{mean} ± {values.std(ddof=1):{form.lstrip('+')}}" if len(values) > 1 else mean


def difference(pairs: "pd.Series[float]", form: str) -> str:
    """Mean and Student's confidence interval; the mean alone of one, or where all are alike."""
    pairs = pairs.dropna()
    if not len(pairs):
        return ""
    mean = format(pairs.mean(), form)
    return mean if alike(pairs) else f"{mean} ({interval(pairs, form)})"


def alike(values: "pd.Series[float]") -> bool:
    """Whether all are the same but for rounding; one or none is."""
    return len(values) < 2 or np.allclose(values, values.iloc[0], rtol=1e-9, atol=0, equal_nan=True)


def interval(differences: "pd.Series[float]", form: str = "+.1f") -> str:
    """Student's confidence interval of the mean, of two values or more."""
    count = len(differences)
    half = stats.t.ppf((1 + CONFIDENCE) / 2, count - 1) * differences.std(ddof=1) / np.sqrt(count)
    return f"{differences.mean() - half:{form}} to {differences.mean() + half:{form}}"
