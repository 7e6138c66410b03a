"""Benchmarks of feature shift: the same classes in several domains, as ``<domain>/<class>/*``."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from task.data.sources.base import Catalogue
from task.data.sources.families.rooted import Rooted
from task.data.sources.families.tree import Tree, file_catalogue, missing_note, sample_test, walk
from task.errors import ConfigError, DataError


@dataclass
class DomainFolders(Rooted):
    """A benchmark whose test set has equally many images of each class and domain.

    Attributes:
        domain_names: what the domains' directories are called.
        folder: what the archive calls the directory that holds them; `root` may be its parent.
        num_images: how many images there are.
        num_classes: how many classes there are.
        test_images: the test set's images per class and domain.
    """

    domain_names: ClassVar[tuple[str, ...]]
    folder: ClassVar[str]
    num_images: ClassVar[int]
    num_classes: ClassVar[int]
    test_images: ClassVar[int]

    def fingerprint(self) -> str:
        return self._tree().fingerprint

    def catalogue(self) -> Catalogue:
        tree = self._tree()
        files = [file for file in tree.files if file.parts[0] in self.domain_names]
        for file in files:
            if len(file.parts) != 3:
                path = tree.root.joinpath(*file.parts)
                raise DataError(f"{path}: images must lie at <domain>/<class>/<image>")
        domains = [file.parts[0] for file in files]
        names = [file.parts[1] for file in files]
        classes = sorted(set(names))
        if len(classes) != self.num_classes:
            raise DataError(f"{tree.root}: {len(classes)} classes, not {self.num_classes}")
        return file_catalogue(
            tree.root,
            [Path(*file.parts) for file in files],
            classes,
            names,
            sample_test(list(zip(domains, names, strict=True)), self._test_count(tree.root)),
            domains,
            missing_note(len(files), self.num_images),
        )

    def _tree(self) -> Tree:
        root = self.directory
        for candidate in (root, root / self.folder):
            if all((candidate / name).is_dir() for name in self.domain_names):
                return walk(candidate)
        wanted = ", ".join(self.domain_names)
        raise ConfigError("data.root", self.root, f"must hold the directories {wanted}")

    def _test_count(self, root: Path) -> Callable[[tuple[str, ...], int], int]:
        def count(group: tuple[str, ...], images: int) -> int:
            if images <= self.test_images:
                least = f"{self.test_images} are the test set's, and some must be left to train on"
                raise DataError(f"{root.joinpath(*group)}: {images} images; {least}")
            return self.test_images

        return count
