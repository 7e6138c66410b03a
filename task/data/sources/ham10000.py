"""HAM10000: dermatoscopic images of seven kinds of skin lesion, from four sources.

Source: P. Tschandl, C. Rosendahl, H. Kittler, "The HAM10000 dataset", Scientific Data 5, 2018.
FedUV (CVPR 2024) tests on roughly a fifth of each domain and does not list the images. Our test set
is a fifth of each class and domain, drawn with a fixed seed. Some lesions have several images. All
of them are on the same side, because a test lesion must not be seen in training. The same holds for
a client's training and validation images.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from task.data.sources.base import DatasetIndex
from task.data.sources.families.directory_source import (
    DirectorySource,
    hash_of_states,
    require_file,
)
from task.data.sources.families.held_out import sample_test_subjects
from task.data.sources.families.rows import read_rows
from task.data.sources.families.tree import count_note, index_of_files, walk
from task.errors import DataError

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
        rows = sorted(
            Lesion(**values, line=line) for line, values in read_rows(metadata, COLUMNS, (), CURE)
        )
        found = walk(self.directory).files
        files = {Path(file.parts[-1]).stem: Path(*file.parts) for file in found}
        for row in rows:
            where = f"{metadata}, line {row.line}"
            if row.image_id not in files:
                missing = f"no image {row.image_id}.jpg in any directory under {self.directory}"
                raise DataError(f"{where}: {missing}; {CURE}")
            if row.dx not in CLASSES:
                raise DataError(f"{where}: dx {row.dx!r} is not one of {', '.join(CLASSES)}")
        lesions = [row.lesion_id for row in rows]
        cells = [(row.dataset, row.dx) for row in rows]
        return index_of_files(
            self.directory,
            [files[row.image_id] for row in rows],
            CLASSES,
            [row.dx for row in rows],
            sample_test_subjects(cells, lesions, TEST_SHARE),
            [row.dataset for row in rows],
            count_note(len(rows), IMAGES),
            lesions,
        )

    def _metadata(self) -> Path:
        places = [self.directory / name for name in METADATA]
        return next(filter(Path.is_file, places), None) or require_file(places[0], CURE)
