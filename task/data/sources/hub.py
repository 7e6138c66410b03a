"""Any image data set of the Hugging Face hub, by name; needs the ``hub`` extra.

Read with the ``datasets`` library, which keeps what it downloads in a cache of its own. A local
directory in one of the library's formats (Parquet, for one) serves as well as a name.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from task.data.sources.base import Catalogue, Source
from task.data.sources.families.parts import place_of
from task.data.sources.families.rooted import state_of
from task.data.sources.families.tree import sample_test, share
from task.errors import ConfigError, DataError, refuse


@dataclass
class Hub(Source):
    """A data set with a column of images and one of labels.

    Attributes:
        repo: its name on the hub, such as ``uoft-cs/cifar10``, or a local directory.
        subset: which of its configurations; None for the only or default one.
        revision: a branch, tag or commit; a commit is the only one that cannot change.
        image: the column of images.
        label: the column of labels: class labels, strings or integers.
        domain: the column of domains, if there is one.
        train_split: the split to train on.
        test_split: the split that is the test set; None to hold out a share of `train_split`.
        test_share: that share, of each class and domain.
    """

    skips_bad_images: ClassVar = True

    repo: str | None
    subset: str | None
    revision: str | None
    image: str
    label: str
    domain: str | None
    train_split: str
    test_split: str | None
    test_share: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.repo:
            refuse(self, "repo", "say which data set: data=hub data.repo=OWNER/NAME")
        if not 0 <= self.test_share <= 1:
            refuse(self, "test_share", "must be from 0 to 1")
        if self.test_split == self.train_split:
            refuse(self, "test_split", "must be another split than train_split")

    def fingerprint(self) -> str:
        directory = Path(str(self.repo))
        if not directory.is_dir():
            return f"revision {self.revision}"  # asking the hub each time would need a network
        files = sorted(path for path in directory.rglob("*") if path.is_file())
        return state_of((str(path), path.stat()) for path in files)

    def catalogue(self) -> Catalogue:
        splits = [self.train_split, *([self.test_split] if self.test_split else [])]
        tables = [self._load(split) for split in splits]
        sizes = [len(table) for table in tables]
        classes, labels = named(tables, self.label)
        domains, domain_of = named(tables, self.domain) if self.domain else (("",), 0 * labels)

        def read(index: int) -> Image.Image:
            part, row = place_of(index, sizes)
            image: Image.Image = tables[part][row][self.image]
            return image

        def name(index: int) -> str:
            part, row = place_of(index, sizes)
            return f"{self.repo}: {splits[part]} row {row}"

        cells = [(domains[d], classes[c]) for d, c in zip(domain_of, labels, strict=True)]
        return Catalogue(
            classes=classes,
            labels=labels,
            test=np.arange(len(labels)) >= sizes[0]
            if self.test_split
            else sample_test(cells, share(self.test_share)),
            read=read,
            name=name,
            domains=domains,
            domain_of=domain_of,
        )

    def _load(self, split: str) -> Any:
        try:
            from datasets import load_dataset  # noqa: PLC0415  (an optional extra, and slow)
        except ModuleNotFoundError:
            cure = "needs the 'hub' extra: pip install 'univarfl[hub]', or uv sync --extra hub"
            raise ConfigError("data", "hub", cure) from None
        try:
            table = load_dataset(str(self.repo), self.subset, split=split, revision=self.revision)
        except Exception as error:  # the library raises what its many formats and the network do
            reason = str(error).strip().split("\n")[0]
            raise ConfigError("data.repo", self.repo, f"split {split!r}: {reason}") from None
        for key in ("image", "label", "domain"):
            column = getattr(self, key)
            if column is not None and column not in table.column_names:
                have = f"it has the columns {', '.join(table.column_names)}"
                raise ConfigError(f"data.{key}", column, have)
        return table


def named(tables: Sequence[Any], column: str) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """A column's names and, for each row of all tables, an index into them.

    Raises:
        DataError: a value is missing.
    """
    values = [value for table in tables for value in table[column]]
    feature = tables[0].features[column]
    named_classes = hasattr(feature, "names")
    if None in values or (named_classes and -1 in values):  # the hub's -1 is a class not told
        raise DataError(f"column {column!r}: a row has no value (rows without labels are no use)")
    if named_classes:
        return tuple(feature.names), np.array(values, dtype=np.int64)
    names, numbers = np.unique(np.array(values), return_inverse=True)
    return tuple(str(name) for name in names), numbers.astype(np.int64)
