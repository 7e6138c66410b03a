"""Your own images as ``<class>/*``, ``<split>/<class>/*`` or ``<domain>/<class>/*``.

The layout follows from the names and depth of the directories. Names of splits are ``train`` (or
``training``), ``val`` (``valid``, ``validation``) and ``test`` (``testing``), in any case. The test
set is ``test``; if there is none, it is ``val``; if there is neither, a share of each class and
domain. If there are both, ``val`` is used for training, because each client holds out a tenth of
its own images for validation.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from task.data.sources.base import DatasetIndex, cleaned
from task.data.sources.families.given_splits import (
    SPLITS,
    split_notes,
    split_test,
    unlisted_note,
)
from task.data.sources.families.held_out import sample_test, share_of_group
from task.data.sources.families.names import Kind, Names, names_of
from task.data.sources.families.own_images import OwnImages
from task.data.sources.families.tree import (
    IMG_EXTENSIONS,
    Tree,
    index_of_files,
    readable,
    walk,
)
from task.errors import ConfigError, DataError

LAYOUTS = "<class>/*, <split>/<class>/* or <domain>/<class>/*"


@dataclass
class Folder(OwnImages):
    """A directory of images; the names of its directories are classes, splits and domains."""

    def fingerprint(self) -> str:
        return walk(self.directory).fingerprint

    def dataset_index(self) -> DatasetIndex:
        tree = walk(self.directory)
        if tree.not_listed:
            deep = tree.root.joinpath(*tree.not_listed[0])
            raise DataError(f"{deep}: is too deep; expected {LAYOUTS}")
        if not tree.files:
            raise ConfigError("data.root", self.root, f"contains no images; expected {LAYOUTS}")
        parents = splits_or_domains(tree)
        splits = [split_named(name) for name in parents]
        labels = self._names(tree, "label", -2)
        names, found = labels.each, labels.notes
        domains = [""] * len(names)
        if depth(tree) == 3 and not any(splits):
            domains, more = self._names(tree, "domain", 0)
            found += more
        classes = self._classes(tree, domains, names)
        test = split_test(splits)
        if not test.any():
            test = sample_test(
                list(zip(domains, names, strict=True)), share_of_group(self.test_share)
            )
        return index_of_files(
            tree.root,
            [Path(*file.parts) for file in tree.files],
            classes,
            names,
            test,
            domains,
            [*split_notes(splits), *found, *notes(tree, classes, names)],
            window=self.window,
        )

    def _names(self, tree: Tree, kind: Kind, place: int) -> Names:
        """Return each image's label or domain: one of the names of its path.

        Raises:
            DataError: it is blank, or cannot be printed.
        """

        def where(index: int) -> str:
            parts = tree.files[index].parts
            return readable(str(tree.root.joinpath(*parts[: place % len(parts) + 1])))

        raw = [readable(file.parts[place]) for file in tree.files]
        return names_of(kind, raw, where, "rename the directory")

    def _classes(self, tree: Tree, domains: Sequence[str], names: Sequence[str]) -> Sequence[str]:
        """Return the given classes, or else the names of the directories with images.

        Raises:
            DataError: a directory is not among the given classes, or the directories cannot be
                classes. Or no directory of a name has images and the classes are not given.
        """
        directories = [parts for parts in tree.directories if len(parts) == depth(tree) - 1]
        if self.classes is None:
            disjoint = len(set(zip(domains, names, strict=True))) == len(set(names))
            if len(set(domains)) > 1 and disjoint:
                first, second, *_ = sorted(set(domains))
                raise DataError(
                    f"{tree.root}: the domains have no class in common; if {first} and {second} "
                    "are the classes, store the images as <class>/*; otherwise list the classes "
                    "in data.classes"
                )
            found = sorted(set(names))
            for parts in directories:
                if cleaned(readable(parts[-1])) not in found:
                    raise DataError(
                        f"{tree.root.joinpath(*parts)}: has no images; remove it or, if it is a "
                        "class, list the classes in data.classes"
                    )
            if len(found) < 2:
                raise DataError(f"{tree.root}: only one class, {found[0]}; expected {LAYOUTS}")
            return found
        for parts in directories:
            if cleaned(readable(parts[-1])) not in self.classes:
                known = f"is not one of the experiment's classes, {', '.join(self.classes)}"
                known += " (data.classes); remove the directory, or list its name"
                where = tree.root.joinpath(*parts)
                raise DataError(f"{where}: class {parts[-1]!r} {known}")
        return self.classes


def depth(tree: Tree) -> int:
    """Return the number of names in an image's path: 2 for ``<class>/*``, otherwise 3."""
    return len(tree.files[0].parts)


def splits_or_domains(tree: Tree) -> list[str]:
    """Return each image's split or domain; empty for the layout ``<class>/*``.

    Raises:
        DataError: image paths differ in length, or are too long.
    """
    for file in tree.files:
        where = tree.root.joinpath(*file.parts)
        if len(file.parts) == 1:
            cure = "is directly in data.root; move it to a directory named after its class"
            raise DataError(f"{where}: {cure} ({LAYOUTS})")
        if len(file.parts) > 3:
            raise DataError(f"{where}: is too deep; expected {LAYOUTS}")
        if len(file.parts) != depth(tree):
            first = tree.root.joinpath(*tree.files[0].parts)
            raise DataError(f"{where}: has another depth than {first}; expected {LAYOUTS}")
    parents = [readable(file.parts[0]) if len(file.parts) == 3 else "" for file in tree.files]
    others = sorted(name for name in set(parents) if not split_named(name))
    if others and len(others) < len(set(parents)):
        cure = "call it train, val or test, or move it elsewhere"
        raise DataError(f"{tree.root / others[0]}: is beside directories of splits; {cure}")
    return parents


def split_named(name: str) -> str:
    """Return the split that a directory's name stands for; empty if it stands for none."""
    split = cleaned(name).lower()
    return split if split in SPLITS else ""


def notes(tree: Tree, classes: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return notes on classes without images and on files that are not images."""
    found = unlisted_note(classes, names)
    if tree.others:
        kinds = Counter(Path(name).suffix.lower() or "no extension" for name in tree.others)
        most = ", ".join(f"{count} {readable(kind)}" for kind, count in kinds.most_common(3))
        example = readable(tree.others[0])
        count = len(tree.others)
        what = (
            f"{count} files are not read ({most}), such as" if count > 1 else "1 file is not read:"
        )
        found.append(f"{what} {example}; images are {', '.join(IMG_EXTENSIONS)}")
    return found
