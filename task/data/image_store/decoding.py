"""From image files of any kind to the uint8 pixels of the store."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import joblib
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError
from rich.console import Console
from rich.progress import track

from task.data.sources.base import DatasetIndex, Interpolation, Resize, Source
from task.errors import ConfigError, DataError, system_reason

FILTERS: dict[Interpolation, Image.Resampling] = {
    "bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC,
}  # fmt: skip
MODES = {1: "L", 3: "RGB"}  # Pillow's modes, by number of channels
BITS_PER_SAMPLE, PHOTOMETRIC, COLOUR_MAP, SAMPLE_FORMAT = 258, 262, 320, 339  # tags of TIFF
SIGNED = 2  # a sample format
PART_SIZE = 512  # images decoded between two steps of the progress bar
BLOCKS = 16  # blocks of images computed between two steps

T = TypeVar("T")
R = TypeVar("R")


class BadImageError(ValueError):
    """An image that cannot be decoded, with the reason as text."""


def decode_all(source: Source, dataset_index: DatasetIndex) -> Iterator[NDArray[Any] | str]:
    """Yield each image's pixels, or the reason why it cannot be decoded.

    Shows a progress bar in a terminal.

    Raises:
        ConfigError: a library that reads a file is not installed.
        DataError: a file cannot be opened, or an image cannot be decoded and must not be skipped.
    """

    def decode_image(index: int) -> NDArray[np.uint8] | str:
        try:
            with dataset_index.read(index) as image:
                return decode(
                    image, source.image_size, source.channels, source.resize, source.interpolation
                )
        except (ConfigError, MemoryError):
            raise
        except Exception as error:
            reason = failure_reason(error)
            if not source.skips_bad_images or (isinstance(error, OSError) and error.errno):
                raise DataError(f"{dataset_index.name(index)}: {reason}") from None
            return reason

    blocks = dataset_index.blocks
    if blocks is not None:
        for computed in map_in_parts(
            blocks.compute, range(blocks.number), BLOCKS, "computing images"
        ):
            for block in computed:
                yield from block
        return
    indices = range(len(dataset_index.labels))
    for part in map_in_parts(decode_image, indices, PART_SIZE, "decoding images"):
        yield from part


def map_in_parts(
    function: Callable[[T], R], items: Sequence[T], part_size: int, description: str
) -> Iterator[Iterator[R]]:
    """Apply a function to items on all cores, and show a progress bar in a terminal.

    Args:
        function: called in threads.
        items: its arguments.
        part_size: how many items are worked on at a time.
        description: the text beside the progress bar.

    Yields:
        The results of each part, in the order of its items.
    """
    console = Console(stderr=True)
    starts, hidden = range(0, len(items), part_size), not console.is_terminal
    with ThreadPoolExecutor(joblib.cpu_count()) as pool:
        for start in track(starts, description, console=console, transient=True, disable=hidden):
            yield pool.map(function, items[start : start + part_size])


def decode(
    image: Image.Image,
    size: int,
    channels: int,
    resize: Resize,
    interpolation: Interpolation = "bilinear",
) -> NDArray[np.uint8]:
    """Load an image, apply its EXIF orientation and resize it: [size, size, channels] uint8.

    Transparency is dropped, as in torchvision's loaders and the papers, which also squash images.

    Args:
        image: the opened file.
        size: height and width of the result, in pixels.
        channels: 3 for colour, 1 for greyscale.
        resize: as in `task.data.sources.base.Source`.
        interpolation: as there.

    Raises:
        BadImageError: the range of its pixel values is unknown.
    """
    tags = getattr(image, "tag_v2", {}) if image.format == "TIFF" else {}
    bits, white_is_zero = tags.get(BITS_PER_SAMPLE, (16,))[0], tags.get(PHOTOMETRIC) == 0
    if SIGNED in tags.get(SAMPLE_FORMAT, ()):
        raise BadImageError("pixels are signed integers of unknown range")
    upright = ImageOps.exif_transpose(image)
    colours = tags.get(COLOUR_MAP, ())
    if upright.mode == "P" and colours and max(colours) < 256:  # they should have 16 bits
        upright.putpalette(bytes(np.reshape(colours, (3, -1)).T.astype(np.uint8)))
    converted = eight_bit(upright, image.format, bits, white_is_zero).convert(MODES[channels])
    filtered = FILTERS[interpolation]
    return np.asarray(fitted(converted, size, resize, filtered)).reshape(size, size, channels)


def fitted(
    image: Image.Image, size: int, resize: Resize, resampling: Image.Resampling
) -> Image.Image:
    """Return an image resized to a square; `task.data.resizing` does the same with tensors."""
    width, height = image.size
    if resize == "squash":
        return image.resize((size, size), resampling)
    if resize == "crop":
        side = min(width, height)
        left, top = (width - side) // 2, (height - side) // 2
        square = image.crop((left, top, left + side, top + side))
        return square.resize((size, size), resampling)
    longest = max(width, height)
    inner = [max(1, (2 * side * size + longest) // (2 * longest)) for side in (width, height)]
    canvas = Image.new(image.mode, (size, size))
    small = image.resize((inner[0], inner[1]), resampling)
    canvas.paste(small, ((size - inner[0]) // 2, (size - inner[1]) // 2))
    return canvas


def eight_bit(
    image: Image.Image, file_format: str | None, bits: int, white_is_zero: bool
) -> Image.Image:
    """Return the image with 8 bits a channel; Pillow itself would clip 16 bits at 255.

    Args:
        image: the image.
        file_format: Pillow's name of the file's format.
        bits: of a pixel in the file, if it has more than 8.
        white_is_zero: whether 0 is white, which Pillow regards for up to 8 bits only.

    Raises:
        BadImageError: the range of its pixel values is unknown.
    """
    if image.mode == "LAB":
        return image.convert("RGB")  # Pillow converts it to no other mode
    if image.mode == "P" and "transparency" in image.info:
        return image.convert("RGBA")  # otherwise Pillow warns
    if image.mode == "F":
        raise BadImageError("pixels are floats of unknown range")
    if not image.mode.startswith("I"):
        return image
    if image.mode == "I" and file_format != "PPM":  # which Pillow scales to 16 bits itself
        raise BadImageError("pixels are 32-bit integers of unknown range")
    values = np.asarray(image).astype(np.int64)
    largest = 2 ** min(bits, 16) - 1
    scaled = (values / (largest / 255)).round().astype(np.uint8)
    return Image.fromarray(255 - scaled if white_is_zero else scaled)


def failure_reason(error: Exception) -> str:
    """Return why an image could not be read, in a few words and without its path."""
    if isinstance(error, UnidentifiedImageError):
        return "not an image"
    if isinstance(error, OSError) and error.strerror:
        return system_reason(error)
    return str(error).strip().split("\n")[0] or type(error).__name__
