"""The tables of a report: runs, means over seeds, rounds to targets, paired differences."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from server_app.runs.records.metrics import ACCURACY, FURTHER, METRICS
from server_app.runs.records.parts import tables_of
from univarfl.records.labels import label_of
from univarfl.records.published import accuracy_of, published_numbers
from univarfl.records.reader import Run
from univarfl.report.readings import EXACT, LAST, READINGS, headline_reading, readings
from univarfl.report.section import Section
from univarfl.report.settings import (
    ALL,
    IMAGES,
    Setting,
    format_value,
    heading_of,
    method_labels,
    tuned_values,
    varied_settings,
)
from univarfl.report.statistics import CONFIDENCE, difference, mean_and_sd

BASELINE = label_of("method", "fedavg")
GLANCE, RUNS = "Last round", "Runs"
ACCURACIES = (
    '%, mean ± standard deviation over seeds. "Last round" is before a stage that follows. "Best '
    'by validation" is the accuracy after the round with the best validation accuracy, which is '
    "not the best accuracy. Validation uses the participants' images; with few participants the "
    'choice is noisy. "Statistics of all images" is the accuracy of the last weights with batch '
    "norm's mean and variance measured on the clients' images; the others have the statistics of "
    'the rounds. "Published" is the number of a paper for the same settings.'
)
GLANCE_NOTES = {
    LAST: "Accuracy after the last round in %: mean ± standard deviation over seeds.",
    EXACT: "Accuracy of the last weights in %, with batch norm's statistics measured on the "
    "clients' images (model.statistics=exact): mean ± standard deviation over seeds.",
}
OTHERS = (
    "Last round, test set. Balanced accuracy is the mean recall of the classes. AUROC and average "
    "precision are means over the classes, each class against the rest. Calibration error is the "
    "expected calibration error with 15 bins."
)
DIFFERENCES = (
    "Accuracy minus that of the baseline with the same seeds, in percentage points: mean and "
    f"Student's {CONFIDENCE:.0%} interval of the mean. Runs of one seed share the split, the first "
    "weights and the batches. A difference is not significant if its interval includes 0."
)
SEVERAL = (
    "With task=multilabel, accuracy is the share of examples whose labels are all right, and "
    "accuracy by label the share of right answers; a label counts as given if its probability is "
    "above 0.5. Balanced accuracy is then the mean of sensitivity and specificity."
)
TARGETS = (
    "First round at or above the target: mean over the seeds that reached it. The default target "
    f"is the last accuracy of {BASELINE}, or else of the first method."
)
MOST_COLUMNS = 6  # of the first table; with more settings they are its rows


@dataclass(frozen=True)
class Summary:
    """The tables of completed runs.

    Args:
        runs: every completed run, oldest first. Of runs with equal settings, images and seed the
            latest counts, whichever code, engine or device it used.
        tuned: dotted keys that belong to the method, such as ``optim.lr``. Methods with different
            values are compared with each other.
    """

    runs: list[Run]
    tuned: Sequence[str] = ()

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row per run: method, setting, seed, its accuracy read in each way, other metrics."""
        rows = []
        labels = method_labels(self.runs, self._settings, self.tuned)
        for run, method, setting in zip(self.runs, labels, self._settings, strict=True):
            further = {name: last_of(run, name) for name in FURTHER if ("test", name) in run.series}
            rows.append(
                {
                    "setting": heading_of(setting), **dict(setting), "method": method,
                    "seed": run.config["seed"], **readings(run), **further,
                    "seconds": sum(run.series["train", "seconds"].values()),
                    "run": run.directory.name,
                    **({"rounds": run.record.last_round} if run.record.stopped else {}),
                }
            )  # fmt: skip
        frame = pd.DataFrame(rows)
        for place, key in enumerate(self.keys):  # as objects: null stays apart from absent
            frame[key] = pd.Series([each[place][1] for each in self._settings], dtype=object)
        kept = frame.drop_duplicates(["setting", "method", "seed"], keep="last")
        return kept.sort_values([*self.keys, "method", "seed"], kind="stable")

    @cached_property
    def keys(self) -> list[str]:
        """The settings that differ among the runs."""
        return [key for key, _ in self._settings[0]] if self.runs else []

    @cached_property
    def counted(self) -> dict[tuple[str, str], list[Run]]:
        """The runs that count, by setting and method, ordered by seed."""
        by_name = {run.directory.name: run for run in self.runs}
        return {
            (str(setting), str(method)): [by_name[name] for name in part["run"]]
            for (setting, method), part in self.frame.groupby(["setting", "method"], sort=False)
        }

    @cached_property
    def heads(self) -> dict[tuple[str, str], dict[str, object]]:
        """The first columns of a row, by setting and method: the settings and the method."""
        return {key: self._head(self._part(*key)) for key in self.counted}

    @cached_property
    def _settings(self) -> list[Setting]:
        return varied_settings(self.runs, self.tuned)

    @cached_property
    def _parts(self) -> dict[tuple[str, str], pd.DataFrame]:
        groups = self.frame.groupby(["setting", "method"], sort=False)
        return {(str(setting), str(method)): part for (setting, method), part in groups}

    @property
    def data_differ(self) -> bool:
        """Whether runs of otherwise equal settings were trained on different images."""
        return IMAGES in self.keys

    @property
    def set_aside(self) -> int:
        """How many runs are left out because a later one has the same settings and seed."""
        return len(self.runs) - len(self.frame)

    def accuracy_sections(self) -> list[Section]:
        """Return the tables that come first."""
        note = GLANCE_NOTES[self.headline]
        return [
            Section(GLANCE, self._with_labels(note), table=self.glance()),
            Section("Accuracy", ACCURACIES, table=self.accuracies()),
            Section("Tuned settings", table=self.tuned_settings()),
        ]

    def further_sections(self, targets: Sequence[float], baseline: str | None) -> list[Section]:
        """Return other metrics, paired differences and rounds to a target.

        Args:
            targets: see `targets`. Without any, the table needs two methods.
            baseline: see `differences`.
        """
        compared = len(self.counted) > len({setting for setting, _ in self.counted})
        rounds = self.targets(targets) if compared or targets else pd.DataFrame()
        return [
            Section("Other metrics", self._with_labels(OTHERS), table=self.further()),
            Section("Paired differences", DIFFERENCES, table=self.differences(baseline)),
            Section("Rounds to a target", TARGETS, table=rounds),
        ]

    def runs_section(self) -> Section:
        """Return every run."""
        note = "One row for each run, with a link to its record. Seconds are those of the rounds."
        return Section(RUNS, note, table=self.runs_as_shown())

    @property
    def headline(self) -> str:
        """The reading of accuracy of the first table: that of the runs' models."""
        return headline_reading(self.runs)

    def glance(self) -> pd.DataFrame:
        """Return the headline's accuracy in %: one row per method, one column per setting.

        Many settings are the rows, and the methods the columns.
        """
        settings = {setting for setting, _ in self.counted}
        across = len(settings) > max(MOST_COLUMNS, len({method for _, method in self.counted}))
        rows: dict[str, dict[str, str]] = {}
        for setting, method in self.counted:
            shown = ACCURACY if setting == ALL else setting
            row, column = (shown, method) if across else (method, shown)
            head = {"setting" if across else "method": row}
            values = 100 * self._part(setting, method)[self.headline]
            rows.setdefault(row, head)[column] = mean_and_sd(values)
        return pd.DataFrame(rows.values()).fillna("")

    def accuracies(self) -> pd.DataFrame:
        """Return accuracy in % with standard deviation, number of seeds and published numbers."""
        rows = []
        for (setting, method), runs in self.counted.items():
            part = self._part(setting, method)
            row = {**self._head(part), "seeds": len(part)}
            for reading in READINGS:
                row[reading] = mean_and_sd(100 * part[reading])
            row["published"] = "; ".join(published(runs[-1]))
            rows.append(row)
        return without_empty(pd.DataFrame(rows))

    def further(self) -> pd.DataFrame:
        """Return the other metrics of the last round on the test set."""
        names = [name for name in FURTHER if name in self.frame]
        rows = []
        for setting, method in self.counted:
            part = self._part(setting, method)
            row = self._head(part)
            for name in names:
                values, form = part[name], ".3f"
                if METRICS[name].percent:
                    values, form = 100 * values, ".1f"
                row[METRICS[name].heading] = mean_and_sd(values, form)
            row["seconds"] = mean_and_sd(part["seconds"])
            rows.append(row)
        return pd.DataFrame(rows)

    def tuned_settings(self) -> pd.DataFrame:
        """Return the values of the tuned keys: one row per setting and method."""
        rows = [
            {**self.heads[key], "tuned": tuned_values(runs[-1], self.tuned)}
            for key, runs in self.counted.items()
        ]
        return pd.DataFrame(rows if self.tuned else [])

    def tidy(self) -> pd.DataFrame:
        """Return every mean as a number: one row per setting, method, metric and reading."""
        readings = [("accuracy", reading, reading) for reading in READINGS]
        further = [(name, LAST, name) for name in (*FURTHER, "seconds") if name in self.frame]
        rows = []
        for setting, method in self.counted:
            part = self._part(setting, method)
            head = {key: part.iloc[0][key] for key in [*self.keys, "method"]}
            for metric, reading, column in readings + further:
                values = part[column].dropna()
                if reading == EXACT and not len(values):
                    continue
                counts = {"seeds": len(values), "mean": values.mean(), "sd": values.std(ddof=1)}
                rows.append({**head, "metric": metric, "reading": reading, **counts})
        return pd.DataFrame(rows)

    def targets(self, targets: Sequence[float]) -> pd.DataFrame:
        """Return the rounds until each target accuracy was first reached, and by how many seeds.

        Args:
            targets: accuracies from 0 to 1; if empty, the last accuracy of each setting's baseline.
        """
        rows = []
        for (setting, method), runs in self.counted.items():
            row = self._head(self._part(setting, method))
            for target in targets or [self._usual_target(setting)]:
                rounds = [at for run in runs if (at := first_at(run, target)) is not None]
                mean = f"{np.mean(rounds):.1f}" if rounds else "never"
                some = len(rounds) < len(runs)
                missing = f" ({len(rounds)} of {len(runs)} seeds)" if some else ""
                head = f"rounds to {100 * target:.1f} %" if targets else "rounds"
                if not targets:
                    row["target, %"] = f"{100 * target:.1f}"
                row[head] = mean + missing
            rows.append(row)
        return pd.DataFrame(rows)

    def differences(self, baseline: str | None = None) -> pd.DataFrame:
        """Return accuracy minus that of the baseline with the same seeds, in percentage points."""
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
        return without_empty(pd.DataFrame(rows))

    def runs_as_shown(self) -> pd.DataFrame:
        """Return `frame` with settings formatted as text."""
        unread = [EXACT] if self.frame[EXACT].isna().all() else []
        return self.frame.drop(columns=["setting", *unread]).assign(
            **{key: self.frame[key].map(format_value) for key in self.keys}
        )

    def baseline(self, setting: str) -> str:
        """Return the baseline of a setting: FedAvg, or else its first method."""
        methods = [method for at, method in self.counted if at == setting]
        return BASELINE if BASELINE in methods else methods[0]

    def _with_labels(self, note: str) -> str:
        """Return a note, with what accuracy is if examples of a run have several labels."""
        return f"{note} {SEVERAL}" if any(run.multilabel for run in self.runs) else note

    def _usual_target(self, setting: str) -> float:
        return float(self._part(setting, self.baseline(setting))[LAST].mean())

    def _part(self, setting: str, method: str) -> pd.DataFrame:
        return self._parts.get((setting, method), self.frame[:0])

    def _head(self, part: pd.DataFrame) -> dict[str, object]:
        return {key: format_value(part.iloc[0][key]) for key in [*self.keys, "method"]}


def without_empty(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table of texts without the columns that have none."""
    return frame.loc[:, (frame != "").any()]


def last_of(run: Run, metric: str) -> float:
    """Return a test metric after the last round."""
    points = run.series["test", metric]
    return points[max(points)]


def first_at(run: Run, target: float) -> int | None:
    """Return the first round with at least the target accuracy, if any."""
    scored = run.series[run.split, "accuracy"]
    return min((at for at, value in scored.items() if value >= target), default=None)


def published(run: Run) -> list[str]:
    """Return the published accuracies for exactly the run's settings."""
    if run.split != "test":
        return []
    found = published_numbers(run.config, tables_of(run.config))
    return [f"{accuracy_of(cell)} ({name})" for name, cell in found if cell.mean is not None]
