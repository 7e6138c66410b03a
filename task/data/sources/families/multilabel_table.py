"""Images as the rows of ``images.csv``, each with any number of labels.

The column ``labels`` has the names of an image's labels with ``|`` between them, as in
``edema|effusion``; an empty cell means none of them. The other columns are those of ``data=table``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from task.data.combinations import labels_of
from task.data.sources.base import DatasetIndex, Source, cleaned
from task.data.sources.families.labelled_rows import checked_row, clean_names
from task.data.sources.table import Table
from task.errors import DataError

LABELS, BETWEEN = "labels", "|"
CURE = f"list the images in this table, with the columns image and {LABELS} (a{BETWEEN}b)"


@dataclass
class MultilabelTable(Table):
    """A directory of images, and a table of them and their labels."""

    @property
    def multilabel(self) -> bool:
        return True

    def with_labels(self) -> Source:
        return self

    def dataset_index(self) -> DatasetIndex:
        table, found = self.rows(("image", LABELS), CURE)
        cells = [(line, values.pop(LABELS)) for line, values in found]
        notes = clean_names(table, found)
        rows = [checked_row(table, line, values) for line, values in found]
        files = self.files_of(table, rows)
        each = [list(names_in(cell)) for _, cell in cells]
        classes = self.classes or sorted({name for names in each for name in names})
        if len(classes) < 2:
            raise DataError(f"{table}: {len(classes)} labels; for one, use task=classes")
        place = {name: index for index, name in enumerate(classes)}
        targets = np.zeros((len(rows), len(classes)), dtype=np.uint8)
        for row, names in enumerate(each):
            for name in names:
                if name not in place:
                    raise unknown(table, cells[row][0], name, classes)
                targets[row, place[name]] = 1
        labels = labels_of(classes, targets)
        index = self.indexed(table, rows, files, classes, (), [*labels.notes, *notes])
        return replace(index, labels=labels.labels, targets=targets)


def names_in(cell: str) -> Iterator[str]:
    """Yield the labels that a cell names."""
    return filter(None, map(cleaned, cell.split(BETWEEN)))


def unknown(table: Path, line: int, name: str, classes: Sequence[str]) -> DataError:
    """Return the error for a label that the experiment does not have."""
    known = f"the experiment's labels are {', '.join(classes)} (data.classes)"
    cure = "an empty cell means none of them"
    return DataError(f"{table}, line {line}: label {name!r}, but {known}; {cure}")
