"""Directory trees of image files: how one is listed, and the index of its images."""

import os
import re
import stat
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from task.data.sources.base import DatasetIndex
from task.data.sources.families.directory_source import hash_of_states
from task.machine.files import walk_links
from task.registry import named

MAX_DEPTH = 4

# The extensions of torchvision's ImageFolder, ".dcm", ".gif" and ".jfif". Importing them from
# torchvision takes three seconds, which a site would wait for at each message.
IMG_EXTENSIONS = (
    ".bmp", ".dcm", ".gif", ".jfif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff",
    ".webp",
)  # fmt: skip
DICOM_SUFFIX, DICOM = ".dcm", "task.data.sources.families.dicom:open_dicom"
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")  # Pillow's names of their contents
MOST_PIXELS = 80_000_000  # of one image; decoding takes up to 10 bytes for each
OF_ARCHIVES = "__MACOSX"  # what macOS adds to an archive
ESCAPED_BYTE = re.compile(r"\\x[0-9a-f]{2}")


class ImageFile(NamedTuple):
    """A file: the names of its path below the root, and its state."""

    parts: tuple[str, ...]
    stat: os.stat_result


@dataclass(frozen=True)
class Tree:
    """The contents of a directory, sorted by name.

    Attributes:
        root: the directory.
        files: the files with an image extension.
        directories: all directories, each as the names of its path below the root.
        others: the paths of all other files, which are ignored.
        not_listed: the directories that are too deep to be listed.
    """

    root: Path
    files: list[ImageFile]
    directories: list[tuple[str, ...]]
    others: list[str]
    not_listed: list[tuple[str, ...]]

    @property
    def fingerprint(self) -> str:
        """A hash that changes when a file or directory is added, removed or written."""
        files = hash_of_states(("/".join(file.parts), file.stat) for file in self.files)
        return files + "/".join("/".join(parts) for parts in self.directories)


def walk(root: Path) -> Tree:
    """List a directory down to `MAX_DEPTH`, without names that begin with a dot, or `OF_ARCHIVES`.

    Raises:
        OSError: a directory cannot be read, or the target of a link is missing.
    """
    tree = Tree(root, [], [], [], [])
    for place, below, names in images_in(root):
        parts = place.relative_to(root).parts
        directories = [(*parts, name) for name in below]
        tree.directories.extend(directories)
        if len(parts) + 1 == MAX_DEPTH:
            tree.not_listed.extend(directories)
            below.clear()
        for name in names:
            here, status = (*parts, name), (place / name).stat()
            if stat.S_ISREG(status.st_mode) and has_image_suffix(name):
                tree.files.append(ImageFile(here, status))
            else:
                tree.others.append("/".join(here))
    tree.files.sort(key=lambda file: file.parts)
    for paths in (tree.directories, tree.not_listed):
        paths.sort()
    return tree


def images_in(
    root: Path, on_error: Callable[[OSError], object] | None = None
) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Yield what `walk_links` yields, sorted, without the names that `is_skipped`."""
    for place, below, names in walk_links(root, on_error):
        below[:] = sorted(name for name in below if not is_skipped(name))
        yield place, below, sorted(name for name in names if not is_skipped(name))


def has_image_suffix(name: str) -> bool:
    """Return whether a file of this name is read as an image."""
    return name.lower().endswith(IMG_EXTENSIONS)


def is_skipped(name: str) -> bool:
    """Return whether a file or directory of this name is no part of a data set."""
    return name.startswith(".") or name == OF_ARCHIVES


def open_image(file: Path | BinaryIO, window: Sequence[float] | None = None) -> Image.Image:
    """Open an image file of one of `FORMATS`, whose pixels are not decoded yet, or of DICOM.

    Pillow knows other formats. One of them, EPS, starts another program.

    Args:
        file: a path, or the content of a file of Pillow's.
        window: center and width of DICOM's grey values; None for those in the file.

    Raises:
        ConfigError: it is of DICOM, and pydicom is not installed.
        OSError, ValueError: it cannot be opened, is no regular file, or has too many pixels.
    """
    # Opening a pipe would wait for its writer.
    if isinstance(file, Path) and not stat.S_ISREG(file.stat().st_mode):
        raise ValueError("not a regular file")
    if isinstance(file, Path) and file.suffix.lower() == DICOM_SUFFIX:
        dicom: Image.Image = named(DICOM)(file, window)
        return dicom
    try:
        image = Image.open(file, formats=FORMATS)
    except UnidentifiedImageError:
        if is_tiff(file):
            raise ValueError("this kind of TIFF is not read; save it with 8 or 16 bits") from None
        raise
    if image.width * image.height > MOST_PIXELS:
        image.close()
        raise ValueError(f"{image.width} x {image.height} pixels; at most {MOST_PIXELS:,} are read")
    return image


def is_tiff(file: Path | BinaryIO) -> bool:
    """Return whether a file begins as a TIFF file does."""
    if isinstance(file, Path):
        with file.open("rb") as opened:
            return is_tiff(opened)
    file.seek(0)
    return file.read(4) in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


def readable(name: str) -> str:
    r"""Return a file name as text, even if it is not valid UTF-8; different names differ.

    A byte that is not UTF-8 becomes ``\xHH``. So that no other name has this text, backslashes are
    doubled in such names, and in names that have ``\xHH`` themselves.
    """
    raw = os.fsencode(name)
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return raw.replace(b"\\", b"\\\\").decode(errors="backslashreplace")
    return text.replace("\\", "\\\\") if ESCAPED_BYTE.search(text) else text


def composed(name: str) -> str:
    """Return a name with composed accents (Unicode NFC), so that equal names compare equal.

    Directories that were made on a Mac have letters and accents apart; people type them composed.
    """
    return unicodedata.normalize("NFC", name)


def index_of_files(
    root: Path,
    paths: Sequence[Path],
    classes: Sequence[str],
    class_names: Sequence[str],
    test: NDArray[np.bool_],
    domain_names: Sequence[str] = (),
    notes: Sequence[str] = (),
    subjects: Sequence[str] = (),
    window: Sequence[float] | None = None,
) -> DatasetIndex:
    """Return the index of a data set of image files.

    Args:
        root: the directory that `paths` are relative to.
        paths: one for each image.
        classes: the class names in the order of their labels.
        class_names: each image's class.
        test: [N] bool, true for images of the test set.
        domain_names: each image's domain; empty, or all "", if there are no domains.
        notes: messages for the user and the record.
        subjects: each image's subject; empty if each image has its own.
        window: see `open_image`.
    """
    number = {name: index for index, name in enumerate(classes)}
    of_domain = domain_names or [""] * len(paths)
    domains = sorted(set(of_domain)) or [""]
    return DatasetIndex(
        classes=tuple(classes),
        labels=np.array([number[name] for name in class_names], dtype=np.int64),
        test=test,
        read=lambda index: open_image(root / paths[index], window),
        name=lambda index: readable(str(paths[index])),  # records and cards name no place
        domains=tuple(domains),
        domain_of=numbers_of(of_domain),
        notes=notes,
        subject_of=numbers_of(subjects) if subjects else None,
    )


def numbers_of(names: Sequence[str]) -> NDArray[np.int64]:
    """Return each name's place among the sorted distinct names, [N]."""
    place = {name: index for index, name in enumerate(sorted(set(names)))}
    return np.array([place[name] for name in names], dtype=np.int64)


def count_note(images: int, expected: int) -> list[str]:
    """Return a note if a benchmark does not have the expected number of images."""
    return [] if images == expected else [f"{images} images, but the data set has {expected}"]
