"""DICOM files of one frame as images of 8 bits, by window and level.

Only what the pixels need is read from a file: no name, number or date of a patient is in memory,
and no message has text of the file.
"""

import importlib
import io
import logging
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from task.errors import ConfigError

MISSING = "need pydicom: uv sync --extra dicom, or pip install pydicom"
MOST_PIXELS = 40_000_000  # times channels, of an image; decoding takes up to 30 bytes for each
MOST_BYTES = 8 * MOST_PIXELS  # of a file
MOST_RLE = 32_000_000  # bytes of run lengths, of which two can stand for 128
PALETTE = [f"{colour}PaletteColorLookupTable{part}" for colour in ("Red", "Green", "Blue")
           for part in ("Descriptor", "Data")]  # fmt: skip
TAGS = [
    "Rows", "Columns", "NumberOfFrames", "SamplesPerPixel", "PhotometricInterpretation",
    "PlanarConfiguration", "BitsAllocated", "BitsStored", "HighBit", "PixelRepresentation",
    "RescaleSlope", "RescaleIntercept", "ModalityLUTSequence", "WindowCenter", "WindowWidth",
    "VOILUTFunction", "VOILUTSequence", "PixelData", *PALETTE,
]  # fmt: skip
SAVE = "save it without compression, or install pylibjpeg with its plugins"
CURE = "set data.window=[center,width]"


class RefusedError(ValueError):
    """A file that is not read; the text has no value of its header but numbers of pixels."""


def open_dicom(path: Path, window: Sequence[float] | None) -> Image.Image:
    """Return the image of a file, in grey (``L``) or colour (``RGB``).

    Grey values are rescaled as the file says, windowed, and then rounded to 8 bits, once.

    Args:
        path: the file, which is a regular one.
        window: center and width, in rescaled values; None for the first window of the file.

    Raises:
        ConfigError: pydicom is not installed.
        OSError, ValueError: the file is not read; the text says why.
    """
    try:
        pydicom = importlib.import_module("pydicom")
        pixels = importlib.import_module("pydicom.pixels")
    except ModuleNotFoundError:
        raise ConfigError("data.root", f"{path.suffix} files", MISSING) from None
    # Its warnings have values of the header.
    warnings.filterwarnings("ignore", module=r"pydicom\.")
    logging.getLogger("pydicom").setLevel(logging.CRITICAL + 1)
    try:
        if path.stat().st_size > MOST_BYTES:
            raise RefusedError(f"the DICOM file has more than {MOST_BYTES / 1e6:,.0f} MB")
        syntax = pydicom.filereader.read_file_meta_info(path).TransferSyntaxUID
        require_readable(syntax, pixels)
        data = pydicom.dcmread(path, specific_tags=TAGS)
        require_one_frame(data, syntax)
        return image_of(data, pixels, window)
    except (ConfigError, MemoryError, RefusedError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno:
            raise
        raise RefusedError("the DICOM file is damaged, or has no image") from None


def require_readable(syntax: Any, pixels: Any) -> None:
    """Refuse a file whose compression cannot be undone here, or not within bounds.

    Raises:
        RefusedError: it is one.
    """
    name = syntax.name if syntax.is_transfer_syntax and not syntax.is_private else "unknown"
    if name == "unknown" or syntax.is_deflated:
        raise RefusedError(f"the transfer syntax {name} is not read; {SAVE}")
    try:
        decoder = pixels.get_decoder(syntax)
    except NotImplementedError:
        raise RefusedError(f"the transfer syntax {name} is not read; {SAVE}") from None
    if not decoder.is_available:
        raise RefusedError(f"the transfer syntax {name} needs a plugin; {SAVE}")


def require_one_frame(data: Any, syntax: Any) -> None:
    """Refuse a file that has no image, several, or one that is too large.

    Raises:
        RefusedError: it is one.
    """
    if "PixelData" not in data:
        raise RefusedError("the DICOM file has no image of whole numbers")
    frames, rows, columns = int(data.get("NumberOfFrames") or 1), int(data.Rows), int(data.Columns)
    if frames != 1:
        raise RefusedError(f"the DICOM file has {frames} frames; save each as a file of its own")
    if rows * columns * int(data.SamplesPerPixel) > MOST_PIXELS:
        raise RefusedError(f"{columns} x {rows} pixels; at most {MOST_PIXELS:,} numbers are read")
    if data.SamplesPerPixel not in (1, 3) or data.BitsAllocated not in (1, 8, 16, 32):
        raise RefusedError("the DICOM file has an unusual form of pixels")
    if syntax.is_encapsulated and syntax.name.startswith("RLE") and len(data.PixelData) > MOST_RLE:
        raise RefusedError(f"the run lengths have more than {MOST_RLE / 1e6:.0f} MB; {SAVE}")
    if syntax.is_compressed and not syntax.name.startswith("RLE"):
        require_size_inside(data, syntax.name, (columns, rows))


def require_size_inside(data: Any, syntax: str, wanted: tuple[int, int]) -> None:
    """Refuse a compressed image whose own size is not that of the file's header.

    Raises:
        RefusedError: it differs, or cannot be told.
    """
    frame = importlib.import_module("pydicom.encaps").get_frame(
        data.PixelData, 0, number_of_frames=1
    )
    try:
        with Image.open(io.BytesIO(frame)) as image:  # reads no pixel
            size = image.size
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        raise RefusedError(
            f"the size of its compressed image ({syntax}) is unknown; {SAVE}"
        ) from None
    if size != wanted:
        raise RefusedError(f"its compressed image has {size[0]} x {size[1]} pixels; {SAVE}")


def image_of(data: Any, pixels: Any, window: Sequence[float] | None) -> Image.Image:
    """Return the image of a checked file.

    Raises:
        RefusedError: its pixels cannot be decoded, or no window is known.
    """
    try:
        values = data.pixel_array
    except (MemoryError, RefusedError):
        raise
    except Exception:
        syntax = data.file_meta.TransferSyntaxUID
        cure = SAVE if syntax.is_compressed else "they are cut off or have another form"
        raise RefusedError(f"its pixels cannot be decoded ({syntax.name}); {cure}") from None
    if data.PhotometricInterpretation == "PALETTE COLOR":
        bits = max(8, int(data.RedPaletteColorLookupTableDescriptor[2]))
        share = pixels.apply_color_lut(values, data) / (2**bits - 1)
    elif values.ndim == 3:
        share = values / (2 ** int(data.BitsStored) - 1)
    else:
        share = windowed(values, data, pixels, window)
        if data.PhotometricInterpretation == "MONOCHROME1":  # the least value is white
            share = 1 - share
    if not np.isfinite(share).all():
        raise RefusedError("its rescaled values are not finite")
    return Image.fromarray(np.rint(share * 255).clip(0, 255).astype(np.uint8))


def windowed(
    values: NDArray[Any], data: Any, pixels: Any, window: Sequence[float] | None
) -> NDArray[np.float64]:
    """Return grey values from 0 to 1; see PS3.3 C.11.2.1.2 of the standard.

    Args:
        values: as they are stored, [h, w].
        data: the file.
        pixels: the module ``pydicom.pixels``.
        window: see `open_dicom`.

    Raises:
        RefusedError: the file has more than 8 bits and no window, or a window of no width.
    """
    x = pixels.apply_modality_lut(values, data).astype(np.float64)
    function = str(data.get("VOILUTFunction") or "LINEAR")
    if window is not None:
        (center, width), function = window, "LINEAR"
    elif data.get("WindowCenter") is not None and data.get("WindowWidth") is not None:
        center, width = (float(first(data[key].value)) for key in ("WindowCenter", "WindowWidth"))
    elif data.get("VOILUTSequence"):
        bits = int(data.VOILUTSequence[0].LUTDescriptor[2])
        found = pixels.apply_voi(x.astype(np.int64), data) / (2**bits - 1)
        return np.asarray(found, np.float64)
    elif int(data.BitsStored) <= 8:
        return np.asarray(values / (2 ** int(data.BitsStored) - 1), np.float64)
    else:
        raise RefusedError(f"the DICOM file has {int(data.BitsStored)} bits and no window; {CURE}")
    if not np.isfinite([center, width]).all() or width < (function == "LINEAR") or width <= 0:
        raise RefusedError(f"the DICOM file has a window of no width; {CURE}")
    if function == "SIGMOID":
        found = 1 / (1 + np.exp((-4 * (x - center) / width).clip(-700, 700)))
    elif function == "LINEAR_EXACT":
        found = ((x - center) / width + 0.5).clip(0, 1)
    elif width == 1:
        found = x > center - 0.5
    else:
        found = ((x - (center - 0.5)) / (width - 1) + 0.5).clip(0, 1)
    return np.asarray(found, np.float64)


def first(value: Any) -> Any:
    """Return a value, or the first of several."""
    return value[0] if isinstance(value, Sequence) and not isinstance(value, str) else value
