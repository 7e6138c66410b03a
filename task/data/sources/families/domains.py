"""Benchmarks of feature shift, with the same classes in several domains: ``<domain>/<class>/*``."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from task.data.sources.base import DatasetIndex
from task.data.sources.families.directory_source import DirectorySource
from task.data.sources.families.held_out import sample_test
from task.data.sources.families.tree import Tree, count_note, index_of_files, walk
from task.errors import ConfigError, DataError


@dataclass
class DomainBenchmark(DirectorySource):
    """A benchmark whose test set has equally many images of each class and domain.

    Attributes:
        domain_names: the names of the domains' directories.
        folder: the name of their parent directory in the archive; `root` may be that directory or
            its parent.
        num_images: the number of images.
        num_classes: the number of classes.
        test_images: the number of test images of each class and domain.
    """

    domain_names: ClassVar[tuple[str, ...]]
    folder: ClassVar[str]
    num_images: ClassVar[int]
    num_classes: ClassVar[int]
    test_images: ClassVar[int]

    def fingerprint(self) -> str:
        return self._tree().fingerprint

    def dataset_index(self) -> DatasetIndex:
        tree = self._tree()
        files = [file for file in tree.files if file.parts[0] in self.domain_names]
        for file in files:
            if len(file.parts) != 3:
                path = tree.root.joinpath(*file.parts)
                raise DataError(f"{path}: image paths must be <domain>/<class>/<image>")
        domains = [file.parts[0] for file in files]
        names = [file.parts[1] for file in files]
        classes = sorted(set(names))
        if len(classes) != self.num_classes:
            raise DataError(f"{tree.root}: has {len(classes)} classes, not {self.num_classes}")
        return index_of_files(
            tree.root,
            [Path(*file.parts) for file in files],
            classes,
            names,
            sample_test(list(zip(domains, names, strict=True)), self._test_count(tree.root)),
            domains,
            count_note(len(files), self.num_images),
        )

    def _tree(self) -> Tree:
        root = self.directory
        for candidate in (root, root / self.folder):
            if all((candidate / name).is_dir() for name in self.domain_names):
                return walk(candidate)
        wanted = ", ".join(self.domain_names)
        raise ConfigError("data.root", self.root, f"must contain the directories {wanted}")

    def _test_count(self, root: Path) -> Callable[[tuple[str, ...], int], int]:
        def count(group: tuple[str, ...], images: int) -> int:
            if images <= self.test_images:
                least = f"more than {self.test_images} are needed, which the test set takes"
                raise DataError(f"{root.joinpath(*group)}: {images} images; {least}")
            return self.test_images

        return count
