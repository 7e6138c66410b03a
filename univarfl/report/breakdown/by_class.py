"""The tables of single classes: sensitivity, specificity, AUROC, and the confusion matrix."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict

import numpy as np
import pandas as pd

from server_app.runs.records.by_class import TRUE_CLASS
from server_app.runs.records.tables import RecordError
from task.training.one_vs_rest import OneVsRest
from univarfl.records.reader import Run
from univarfl.records.scores import read_by_class
from univarfl.report.section import Section
from univarfl.report.statistics import mean_and_sd, span
from univarfl.report.summary import Summary

MOST_CLASSES = 20  # with more, nobody reads the tables; the records have them
MOST_ROWS = 400
NOTES = {
    "Metrics by class": "Final model, test set, each class against the rest: mean ± standard "
    "deviation over seeds. Sensitivity is the recall of the class. With task=multilabel an image "
    "is taken for a class if the probability is above 0.5. An empty cell is undefined: there "
    "are no images of the class, or none of others.",
    "Confusion matrix": "Final model, test set: images of each true class (row) by the class that "
    "the model gave (column), summed over the seeds.",
}
METRICS = {
    "sensitivity": "sensitivity",
    "specificity": "specificity",
    "auroc": "AUROC",
    "average_precision": "average precision",
}


class ByClass:
    """The tables of single classes, of runs that recorded metrics by class.

    Args:
        summary: the runs.

    Attributes:
        problems: one line for each record that is damaged.
    """

    def __init__(self, summary: Summary) -> None:
        self._summary = summary
        self.problems: list[str] = []
        self._found = {key: self._read(runs) for key, runs in summary.counted.items()}

    def sections(self) -> list[Section]:
        """Return the tables; none that would be too long to read."""
        tables = pd.DataFrame(self._metrics()), pd.DataFrame(self._confusion()).fillna("")
        return [
            Section(title, note, table=table)
            for (title, note), table in zip(NOTES.items(), tables, strict=True)
            if len(table) <= MOST_ROWS
        ]

    def _metrics(self) -> Iterator[dict[str, object]]:
        for key, found in self._found.items():
            for label, name in enumerate(self._classes(key) if found else ()):
                each = pd.DataFrame([asdict(one.classes[label]) for one in found])
                row = {"class": name, "images": span(each["images"])}
                values = {
                    title: mean_and_sd(each[of].astype(float), ".3f")
                    for of, title in METRICS.items()
                }
                yield {**self._summary.heads[key], **row, **values}

    def _confusion(self) -> Iterator[dict[str, object]]:
        for key, found in self._found.items():
            if not found or not found[0].confusion:
                continue
            classes = self._classes(key)
            total = np.sum([one.confusion for one in found], axis=0)
            for name, row in zip(classes, total, strict=True):
                counts = {f"as {other}": str(n) for other, n in zip(classes, row, strict=True)}
                yield {**self._summary.heads[key], TRUE_CLASS: name, **counts}

    def _classes(self, key: tuple[str, str]) -> list[str]:
        return self._summary.counted[key][0].data.classes

    def _read(self, runs: Sequence[Run]) -> list[OneVsRest]:
        """Return what the runs recorded by class, one entry for each seed that did."""
        classes = runs[0].data.classes
        if len(classes) > MOST_CLASSES:
            return []
        found = []
        for run in runs:
            try:
                each = read_by_class(run.directory, classes, multilabel=run.multilabel)
            except RecordError as error:
                self.problems.append(f"{run.directory.name}: {error}")
            else:
                found += [each] if each else []
        return found
