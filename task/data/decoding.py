"""From opened images, whatever their kind, to the uint8 pixels that the store keeps."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import joblib
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError
from rich.console import Console
from rich.progress import track

from task.data.sources.base import Catalogue, Source
from task.errors import DataError, system_reason

MODES = {1: "L", 3: "RGB"}
WIDE = 65535
AT_ONCE = 512

T = TypeVar("T")
R = TypeVar("R")


class BadImageError(ValueError):
    """An image that cannot be decoded; the text says why."""


def decode_all(source: Source, catalogue: Catalogue) -> Iterator[NDArray[np.uint8] | str]:
    """Every image's pixels in turn, or why they cannot be had; with a progress bar in a terminal.

    Raises:
        DataError: a file cannot be opened, or cannot be decoded and the source skips none.
    """

    def attempt(index: int) -> NDArray[np.uint8] | str:
        try:
            with catalogue.read(index) as image:
                return decode(image, source.image_size, source.channels)
        except MemoryError:
            raise
        except Exception as error:
            why = reason(error)
            if not source.skips_bad_images or (isinstance(error, OSError) and error.errno):
                raise DataError(f"{catalogue.name(index)}: {why}") from None
            return why

    every = range(len(catalogue.labels))
    for part in in_parts(attempt, every, AT_ONCE, "decoding images"):
        yield from part


def in_parts(
    work: Callable[[T], R], items: Sequence[T], at_once: int, doing: str
) -> Iterator[Iterator[R]]:
    """Do something with many items on all cores, so many at once; in a terminal, with a bar.

    Yields:
        For each part of the items, its results in turn.
    """
    console = Console(stderr=True)
    starts, hidden = range(0, len(items), at_once), not console.is_terminal
    with ThreadPoolExecutor(joblib.cpu_count()) as pool:
        for start in track(starts, doing, console=console, transient=True, disable=hidden):
            yield pool.map(work, items[start : start + at_once])


def decode(image: Image.Image, size: int, channels: int) -> NDArray[np.uint8]:
    """Load an image, turn it upright, and resize it: [size, size, channels] uint8.

    Transparency is dropped and the aspect ratio is not kept, as torchvision's loaders and the
    papers have it.

    Raises:
        BadImageError: its pixels are of a range that it does not tell.
    """
    upright = ImageOps.exif_transpose(image)
    plain = eight_bit(upright, image.format).convert(MODES[channels])
    resized = plain.resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(resized).reshape(size, size, channels)


def eight_bit(image: Image.Image, file_format: str | None) -> Image.Image:
    """The image with 8 bits a channel. Pillow itself would cut 16 bits off at 255."""
    if image.mode == "P" and "transparency" in image.info:
        return image.convert("RGBA")  # else Pillow warns
    if image.mode == "F":
        raise BadImageError("its pixels are floats, whose range no one can know")
    if not image.mode.startswith("I"):
        return image
    if image.mode == "I" and file_format != "PPM":  # which Pillow scales to 16 bits itself
        raise BadImageError("its pixels are 32-bit integers, whose range no one can know")
    values = np.asarray(image).astype(np.int64)
    return Image.fromarray((values / (WIDE / 255)).round().astype(np.uint8))


def reason(error: Exception) -> str:
    """Why an image could not be had, in a few words and without its path."""
    if isinstance(error, UnidentifiedImageError):
        return "not an image"
    if isinstance(error, OSError) and error.strerror:
        return system_reason(error)
    return str(error).strip().split("\n")[0] or type(error).__name__
