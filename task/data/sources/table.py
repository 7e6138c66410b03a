"""Your own images as the rows of a table: ``images.csv`` in the directory of the images.

The columns are separated by commas, semicolons or tabs. ``image`` and ``label`` are needed, and
other columns are ignored. The case of these names does not count:

- ``image``: the path of the file, relative to the directory;
- ``label``: the name of the class;
- ``split``: ``train``, ``val`` or ``test``, with the same meaning as the directories of
  ``data=folder``. Without this column, a share of each class and domain is held out for testing;
- ``domain``: where the image is from, such as a hospital or a scanner;
- ``subject``: the patient, animal or object in the image, by a name that is unique in the table.
  All images of a subject are either for training or for testing, and at a client either for
  training or for validation.

The columns have fixed names, so the owner of a site alone decides what is a label.
"""

from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass, fields
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import NamedTuple

from task.data.sources.base import DatasetIndex, Source
from task.data.sources.families.directory_source import hash_of_states, require_file
from task.data.sources.families.given_splits import split_notes, unlisted_note
from task.data.sources.families.labelled_rows import (
    NEEDED,
    Row,
    checked_row,
    clean_names,
    rows_for_testing,
)
from task.data.sources.families.own_images import OwnImages
from task.data.sources.families.rows import read_rows
from task.data.sources.families.tree import (
    IMG_EXTENSIONS,
    MAX_DEPTH,
    composed,
    index_of_files,
    walk,
)
from task.errors import DataError
from task.registry import named

TABLE = "images.csv"
SEVERAL = "task.data.sources.families.multilabel_table:MultilabelTable"  # of task=multilabel
CURE = "list the images in this table, with the columns image and label"
OPTIONAL = ("split", "domain", "subject")

Lines = list[tuple[int, dict[str, str]]]  # of each row, its line and its values by column


class Files(NamedTuple):
    """The image files of a table's rows, and notes on others."""

    paths: Sequence[Path]
    notes: Sequence[str]


@dataclass
class Table(OwnImages):
    """A directory of images and a table of them."""

    def fingerprint(self) -> str:
        table = require_file(self.directory / TABLE, CURE)
        return hash_of_states([(TABLE, table.stat())]) + walk(self.directory).fingerprint

    def with_labels(self) -> Source:
        several: type[Table] = named(SEVERAL)
        settings = {each.name: getattr(self, each.name) for each in fields(self) if each.init}
        return several(**settings)

    def dataset_index(self) -> DatasetIndex:
        table, found = self.rows(NEEDED, CURE)
        notes = clean_names(table, found)
        rows = [checked_row(table, line, values) for line, values in found]
        files = self.files_of(table, rows)
        classes, names = self._classes(table, rows), [row.label for row in rows]
        notes = [*unlisted_note(classes, names), *notes]
        return self.indexed(table, rows, files, classes, names, notes)

    def rows(self, needed: Sequence[str], cure: str) -> tuple[Path, Lines]:
        """Return the table, and the line and the values of each row.

        Args:
            needed: the columns that must be there.
            cure: what the user can do if one is missing.

        Raises:
            DataError: it is not such a table, or has no rows.
        """
        table = require_file(self.directory / TABLE, cure)
        found = list(read_rows(table, needed, OPTIONAL, cure))
        if not found:
            raise DataError(f"{table}: has no rows; {cure}")
        return table, found

    def files_of(self, table: Path, rows: Sequence[Row]) -> Files:
        """Return the file of each row, and a note on those that no row lists.

        Raises:
            DataError: a file is missing, or is in two rows.
        """
        files = {file.parts for file in walk(self.directory).files}
        paths = image_paths(table, rows, files)
        return Files(paths, unlisted_files_note(len(rows), len(files)))

    def indexed(
        self,
        table: Path,
        rows: Sequence[Row],
        files: Files,
        classes: Sequence[str],
        names: Sequence[str],
        notes: Sequence[str],
    ) -> DatasetIndex:
        """Return the index of the images in some rows.

        Args:
            table: the table.
            rows: its rows.
            files: see `files_of`.
            classes: the class names.
            names: the class of each row; empty if the caller sets the labels.
            notes: messages on the rows.

        Raises:
            DataError: a subject is for training and for testing.
        """
        domains = [row.domain for row in rows]
        splits, subjects = [row.split for row in rows], [row.subject for row in rows]
        test = rows_for_testing(table, rows, self.test_share)
        return index_of_files(
            self.directory,
            files.paths,
            classes,
            names,
            test,
            domains,
            [*split_notes(splits), *notes, *files.notes],
            subjects if any(subjects) else (),
            self.window,
        )

    def _classes(self, table: Path, rows: Sequence[Row]) -> Sequence[str]:
        """Return the given classes, or else the names in the table.

        Raises:
            DataError: an image has another class, or there is only one class.
        """
        if self.classes is None:
            found = sorted({row.label for row in rows})
            if len(found) < 2:
                raise DataError(f"{table}: only one class, {found[0]}; a model needs two or more")
            return found
        for row in rows:
            if row.label not in self.classes:
                known = f"the experiment's classes are {', '.join(self.classes)} (data.classes)"
                raise DataError(f"{table}, line {row.line}: label {row.label!r}, but {known}")
        return self.classes


def image_paths(table: Path, rows: Sequence[Row], found: Set[tuple[str, ...]]) -> list[Path]:
    """Return each row's file, relative to the table's directory.

    Args:
        table: the table.
        rows: its rows.
        found: the images below its directory, each as the names of its path.

    Raises:
        DataError: a file is not there, cannot be an image, or is in two rows.
    """
    by_name = {tuple(map(composed, parts)): parts for parts in sorted(found)}
    lines: dict[tuple[str, ...], int] = {}
    for row in rows:
        where = f"{table}, line {row.line}: {row.image}"
        if not row.image.lower().endswith(IMG_EXTENSIONS):
            raise DataError(f"{where} is not an image file ({', '.join(IMG_EXTENSIONS)})")
        typed = (typed_parts(text, table.parent) for text in (row.image, slashed(row.image)))
        known = (by_name.get(tuple(map(composed, parts))) for parts in typed)
        parts = PurePosixPath(row.image).parts
        parts = parts if parts in found else next(filter(None, known), parts)
        if parts not in found:
            raise DataError(f"{where} {problem_of(row.image, table.parent, by_name)}")
        if parts in lines:
            raise DataError(f"{where} is also in line {lines[parts]}; list each image once")
        lines[parts] = row.line
    return [Path(*parts) for parts in lines]


def slashed(path: str) -> str:
    """Return a path with the separators of POSIX instead of those of Windows."""
    return path.replace("\\", "/")


def typed_parts(path: str, root: Path) -> tuple[str, ...]:
    """Return the names of a path relative to a directory, also of one typed as an absolute path."""
    for place in (root.absolute(), root.resolve()):
        if PurePosixPath(path).is_relative_to(place):
            return PurePosixPath(path).relative_to(place).parts
    return PurePosixPath(path).parts


def problem_of(path: str, root: Path, names: Collection[tuple[str, ...]]) -> str:
    """Return why a path is not the path of an image below a directory, and what to type instead."""
    missing = f"is not a file below {root}; paths are relative to it"
    parts = typed_parts(slashed(path), root)
    if PurePosixPath(slashed(path)).is_absolute() or PureWindowsPath(path).drive:
        return f"{missing}; write only the part below data.root"
    if len(parts) > MAX_DEPTH:
        return f"is in more than {MAX_DEPTH - 1} directories"
    if parts[1:] in names and parts[0] == root.absolute().name:
        return f"{missing}: write {'/'.join(parts[1:])}"
    spelled = ("/".join(each) for each in names)
    same = [each for each in spelled if each.lower() == composed("/".join(parts)).lower()]
    return f"{missing}, and upper and lower case count: write {same[0]}" if same else missing


def unlisted_files_note(listed: int, found: int) -> list[str]:
    """Return a note if the directory has images that are not in the table."""
    if found == listed:
        return []
    others = "1 image" if found == listed + 1 else f"{found - listed} images"
    return [f"{others} below data.root, but not in {TABLE}, so not used"]
