"""Any image data set of the Hugging Face Hub; needs the ``hub`` extra."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from task.data.sources.base import DatasetIndex, Source
from task.data.sources.families.columns import Column, column_of
from task.data.sources.families.directory_source import hash_of_states
from task.data.sources.families.given_splits import unlisted_note
from task.data.sources.families.held_out import (
    sample_test,
    sample_test_subjects,
    share_of_group,
)
from task.data.sources.families.names import Kind
from task.data.sources.families.parts import locate
from task.data.sources.families.tree import open_image
from task.errors import ConfigError, DataError, refuse


@dataclass
class Hub(Source):
    """A data set with a column of images and one of labels.

    It is read with the ``datasets`` library, which has its own cache of downloads. Instead of a
    name, a local directory can be given, in any format of the library, such as Parquet.

    Attributes:
        repo: its name on the Hub, such as ``uoft-cs/cifar10``, or a local directory.
        subset: the name of its configuration; None for the default one.
        revision: a branch, tag or commit; only a commit always has the same content.
        image: the column of images.
        label: the column of labels: class labels, strings or integers.
        domain: the column of domains; None if there are none.
        subject: the column of subjects, such as patients; None if each image has its own.
        train_split: the split for training.
        test_split: the split for testing; None to hold out a share of `train_split`.
        test_share: the share of each class and domain that is held out.
    """

    skips_bad_images: ClassVar = True
    looks_for_duplicates: ClassVar = True

    repo: str | None
    subset: str | None
    revision: str | None
    image: str
    label: str
    domain: str | None
    subject: str | None
    train_split: str
    test_split: str | None
    test_share: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.repo:
            refuse(self, "repo", "name the data set: data=hub data.repo=OWNER/NAME")
        if not 0 <= self.test_share <= 1:
            refuse(self, "test_share", "must be from 0 to 1")
        if self.test_split == self.train_split:
            refuse(self, "test_split", "must differ from train_split")

    def fingerprint(self) -> str:
        directory = Path(str(self.repo))
        if not directory.is_dir():
            return f"revision {self.revision}"  # asking the Hub would need a network
        files = sorted(path for path in directory.rglob("*") if path.is_file())
        return hash_of_states((str(path), path.stat()) for path in files)

    def dataset_index(self) -> DatasetIndex:
        splits = [self.train_split, *([self.test_split] if self.test_split else [])]
        tables = [self._load(split) for split in splits]
        sizes = [len(table) for table in tables]

        def read(index: int) -> Image.Image:
            part, row = locate(index, sizes)
            return image_of(tables[part][row][self.image])

        def name(index: int) -> str:
            part, row = locate(index, sizes)
            return f"{self.repo}: {splits[part]} row {row}"

        def column(kind: Kind, key: str) -> Column:
            return column_of(tables, key, kind, lambda index: f"{name(index)}, column {key!r}")

        classes, labels, notes = column("label", self.label)
        if len(classes) < 2:
            only = f"{self.repo}: only one class, {classes[0]}" if classes else "there are no rows"
            raise DataError(f"{only}; a model needs two or more")
        notes += unlisted_note(classes, [classes[label] for label in set(labels.tolist())])
        domains, domain_of, more = (
            column("domain", self.domain) if self.domain else Column(("",), 0 * labels, [])
        )
        subject_of = None
        notes += more
        if self.subject:
            _, subject_of, more = column("subject", self.subject)
            notes += more
        cells = [(domains[d], classes[c]) for d, c in zip(domain_of, labels, strict=True)]
        return DatasetIndex(
            classes=classes,
            labels=labels,
            test=self._test(sizes, cells, subject_of),
            read=read,
            name=name,
            domains=domains,
            domain_of=domain_of,
            notes=notes,
            subject_of=subject_of,
        )

    def _test(
        self,
        sizes: Sequence[int],
        cells: Sequence[tuple[str, str]],
        subject_of: NDArray[np.int64] | None,
    ) -> NDArray[np.bool_]:
        """Return which images are in the test set, [N].

        Raises:
            DataError: a subject is in both splits.
        """
        if self.test_split:
            test = np.arange(sum(sizes)) >= sizes[0]
            if subject_of is not None and np.intersect1d(subject_of[test], subject_of[~test]).size:
                raise DataError(
                    f"{self.repo}: subjects of column {self.subject!r} are in both splits; choose "
                    "data.test_split=null, which keeps each subject on one side"
                )
            return test
        if subject_of is None:
            return sample_test(cells, share_of_group(self.test_share))
        names = [f"{number:012}" for number in subject_of]
        return sample_test_subjects(cells, names, self.test_share)

    def _load(self, split: str) -> Any:
        try:
            from datasets import load_dataset  # noqa: PLC0415  (an optional extra, and slow)
        except ModuleNotFoundError:
            cure = "needs the 'hub' extra: pip install 'univarfl[hub]', or uv sync --extra hub"
            raise ConfigError("data", "hub", cure) from None
        try:
            table = load_dataset(str(self.repo), self.subset, split=split, revision=self.revision)
        except Exception as error:  # whatever its formats and the network raise
            reason = str(error).strip().split("\n")[0]
            raise ConfigError("data.repo", self.repo, f"split {split!r}: {reason}") from None
        for key in ("image", "label", "domain", "subject"):
            column = getattr(self, key)
            if column is not None and column not in table.column_names:
                have = f"no such column; there are {', '.join(table.column_names)}"
                raise ConfigError(f"data.{key}", column, have)
        return self._undecoded(table)

    def _undecoded(self, table: Any) -> Any:
        """Return a table whose images are bytes or paths, which `open_image` then opens.

        Raises:
            ConfigError: the column has no images.
        """
        from datasets import Image as Images  # noqa: PLC0415  (see _load)

        if isinstance(table.features[self.image], Images):
            return table.cast_column(self.image, Images(decode=False))
        example = table[0][self.image] if len(table) else None
        if isinstance(example, str):
            what = f"has texts, such as {example[:60]!r}, not images; for a table of paths use "
            what += "data=table, or write it again with the column cast to datasets.Image()"
            raise ConfigError("data.image", self.image, what)
        if example is not None and not isinstance(example, bytes | dict):
            what = f"has values of type {type(example).__name__}, not images; write it again with "
            raise ConfigError(
                "data.image", self.image, f"{what}the column cast to datasets.Image()"
            )
        return table


def image_of(cell: Any) -> Image.Image:
    """Open the image in a cell: its bytes, or the bytes or the path in a dictionary.

    Raises:
        OSError, ValueError: there is none, or it cannot be opened.
    """
    found = cell if isinstance(cell, dict) else {"bytes": cell}
    if content := found.get("bytes"):
        return open_image(io.BytesIO(content))
    if not (path := found.get("path")):
        raise ValueError("the row has no image")
    if "://" in path:  # in an archive
        import fsspec  # noqa: PLC0415  (comes with datasets)

        with fsspec.open(path, "rb") as file:
            return open_image(io.BytesIO(file.read()))
    return open_image(Path(path))
