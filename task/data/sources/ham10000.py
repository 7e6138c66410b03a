"""HAM10000: dermatoscopic images of seven kinds of skin lesion, from four sources.

Source: P. Tschandl, C. Rosendahl, H. Kittler, "The HAM10000 dataset", Scientific Data 5, 2018.
FedUV (CVPR 2024) tests on roughly a fifth of each domain and does not list the images. Our test set
is a fifth of each class and domain, drawn with a fixed seed. All images of a lesion are on the same
side, because some lesions have several, and a test lesion must not be seen in training.

A client's validation images are drawn one by one, so a lesion can be in its training and its
validation images. Accuracy on validation images is then too high; accuracy on test images is not.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from task.data.sources.base import DatasetIndex
from task.data.sources.families.directory_source import (
    DirectorySource,
    hash_of_states,
    require_file,
)
from task.data.sources.families.tree import TEST_SEED, count_note, index_of_files, walk
from task.errors import DataError
from task.seeding import numpy_generator

METADATA = ("HAM10000_metadata.csv", "HAM10000_metadata.tab", "HAM10000_metadata")
CURE = "download HAM10000 from the Harvard Dataverse, doi:10.7910/DVN/DBW86T"
CLASSES = ("akiec", "bcc", "bkl", "df", "mel", "nv", "vasc")
COLUMNS = ("image_id", "lesion_id", "dx", "dataset")
IMAGES = 10_015
TEST_SHARE = 0.2


class Lesion(NamedTuple):
    """One image's row of the metadata, with its line number."""

    image_id: str
    lesion_id: str
    dx: str
    dataset: str
    line: int


@dataclass
class Ham10000(DirectorySource):
    """``HAM10000_metadata.csv`` (or ``.tab``) and ``<image_id>.jpg`` in any directory below."""

    def fingerprint(self) -> str:
        metadata = self._metadata()
        return hash_of_states([(metadata.name, metadata.stat())]) + walk(self.directory).fingerprint

    def dataset_index(self) -> DatasetIndex:
        metadata = self._metadata()
        rows = read_metadata(metadata)
        found = walk(self.directory).files
        files = {Path(file.parts[-1]).stem: Path(*file.parts) for file in found}
        for row in rows:
            where = f"{metadata}, line {row.line}"
            if row.image_id not in files:
                missing = f"no image {row.image_id}.jpg in any directory under {self.directory}"
                raise DataError(f"{where}: {missing}; {CURE}")
            if row.dx not in CLASSES:
                raise DataError(f"{where}: dx {row.dx!r} is not one of {', '.join(CLASSES)}")
        return index_of_files(
            self.directory,
            [files[row.image_id] for row in rows],
            CLASSES,
            [row.dx for row in rows],
            held_out_lesions(rows),
            [row.dataset for row in rows],
            count_note(len(rows), IMAGES),
        )

    def _metadata(self) -> Path:
        places = [self.directory / name for name in METADATA]
        return next(filter(Path.is_file, places), None) or require_file(places[0], CURE)


def read_metadata(path: Path) -> list[Lesion]:
    """Return the rows of the metadata, sorted by image.

    Raises:
        DataError: a column is missing.
    """
    with path.open(newline="", encoding="utf-8-sig") as file:
        head = file.readline()
        file.seek(0)
        reader = csv.DictReader(file, delimiter="\t" if "\t" in head else ",")
        missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
        if missing:
            raise DataError(f"{path}: no column {', '.join(missing)}; {CURE}")
        rows = [
            Lesion(**{name: row[name] or "" for name in COLUMNS}, line=reader.line_num)
            for row in reader
        ]
    return sorted(rows)


def held_out_lesions(rows: Sequence[Lesion]) -> NDArray[np.bool_]:
    """Return the test set: lesions with at most a fifth of the images of each class and domain."""
    cells: dict[tuple[str, str], dict[str, list[int]]] = {}
    for index, row in enumerate(rows):
        cells.setdefault((row.dataset, row.dx), {}).setdefault(row.lesion_id, []).append(index)
    test = np.zeros(len(rows), dtype=np.bool_)
    for cell, lesions in sorted(cells.items()):
        generator = numpy_generator(TEST_SEED, "test", *cell)
        wanted = int(TEST_SHARE * sum(map(len, lesions.values())) + 0.5)
        held_out = 0
        for lesion in generator.permutation(sorted(lesions)):
            if held_out + len(lesions[lesion]) <= wanted:
                test[lesions[lesion]] = True
                held_out += len(lesions[lesion])
    return test
