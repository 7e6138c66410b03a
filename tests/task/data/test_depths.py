"""The brightness of each mode and depth, against files that are written byte by byte."""

import io
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from task.data.image_store.decoding import BadImageError, decode
from task.data.sources.families.tree import open_image
from tests.task.data.files import netpbm, packed, png, tiff

SIDE = 8
Pixels = NDArray[np.float64]

shares = st.lists(st.floats(0, 1), min_size=SIDE, max_size=SIDE).map(np.array)


def read(content: bytes, channels: int = 1) -> NDArray[np.int64]:
    with open_image(io.BytesIO(content)) as image:
        return decode(image, SIDE, channels, "squash").astype(np.int64)


def rows(values: NDArray[np.int64], bits: int, order: str = ">") -> list[bytes]:
    return [packed(values.ravel().tolist(), bits, order)] * SIDE


def assert_brightness(content: bytes, share: Pixels, channels: int = 1) -> None:
    """Compare with shares of the largest value, along each row."""
    found = read(content, channels)
    assert np.abs(found - 255 * share[None, :, None]).max() <= 1


@given(shares, st.sampled_from([1, 2, 4, 8, 16]))
def test_grey_pngs(share: Pixels, bits: int) -> None:
    values = np.rint(share * (2**bits - 1)).astype(np.int64)
    known = values / (2**bits - 1)
    for more in ({}, {b"tRNS": b"\0\0"}):
        assert_brightness(png(rows(values, bits), SIDE, bits, 0, more), known)
        assert_brightness(png(rows(values, bits), SIDE, bits, 0, more), known, channels=3)


@given(shares, shares, st.sampled_from([8, 16]), st.sampled_from([2, 4, 6]))
def test_pngs_in_colour_and_with_transparency_that_is_dropped(
    share: Pixels, opacity: Pixels, bits: int, colour: int
) -> None:
    layers = [share] * (1 if colour == 4 else 3) + ([opacity] if colour > 2 else [])
    values = np.rint(np.stack(layers, axis=1) * (2**bits - 1)).astype(np.int64)
    assert_brightness(png(rows(values, bits), SIDE, bits, colour, {}), share, channels=3)


@given(shares, st.sampled_from([1, 2, 4, 8]), st.booleans())
def test_palettes_of_pngs_and_tiffs(share: Pixels, bits: int, transparent: bool) -> None:
    """The palette has the colours in reverse, so a number is not its own brightness."""
    largest = 2**bits - 1
    values = np.rint((1 - share) * largest).astype(np.int64)
    known = 1 - values / largest
    colours = [round(255 * (1 - number / largest)) for number in range(largest + 1)]
    more = {b"PLTE": bytes(colour for colour in colours for _ in range(3))}
    more |= {b"tRNS": bytes(largest + 1)} if transparent else {}
    assert_brightness(png(rows(values, bits), SIDE, bits, 3, more), known, channels=3)
    if bits in (4, 8):
        for depth in (1, 257):  # some programs write palettes with 8 bits
            table = [colour * depth for colour in colours] * 3
            content = tiff(rows(values, bits), SIDE, bits, 3, more={320: table})
            assert_brightness(content, known, channels=3)


@given(shares, st.sampled_from([1, 7, 100, 255, 256, 4095, 65535]), st.sampled_from([2, 3, 5, 6]))
def test_netpbm_files_with_any_largest_value(share: Pixels, largest: int, kind: int) -> None:
    values = np.rint(share * largest).astype(np.int64)
    row = np.repeat(values, 3 if kind in (3, 6) else 1).tolist()
    assert_brightness(netpbm(kind, [row] * SIDE, SIDE, largest), values / largest)


@given(shares, st.sampled_from([1, 2, 4, 8, 16]), st.booleans(), st.sampled_from("<>"))
def test_grey_tiffs_of_each_depth_meaning_of_zero_and_order_of_bytes(
    share: Pixels, bits: int, white_is_zero: bool, order: str
) -> None:
    if (bits, white_is_zero, order) == (16, True, ">"):
        return  # refused by Pillow
    largest = 2**bits - 1
    values = np.rint(share * largest).astype(np.int64)
    stored = largest - values if white_is_zero else values
    content = tiff(rows(stored, bits, order), SIDE, bits, 0 if white_is_zero else 1, order=order)
    assert_brightness(content, values / largest)


@given(shares, st.sampled_from([8, 16]), st.sampled_from("<>"), st.booleans())
def test_tiffs_in_colour(share: Pixels, bits: int, order: str, transparent: bool) -> None:
    largest = 2**bits - 1
    values = np.rint(share * largest).astype(np.int64)
    layers = [values] * 3 + [0 * values] * transparent
    content = tiff(
        rows(np.stack(layers, axis=1), bits, order), SIDE, bits, 2, len(layers), order,
        {338: [2]} if transparent else None,
    )  # fmt: skip
    assert_brightness(content, share, channels=3)
    ink = np.stack([0 * values] * 3 + [largest - values], axis=1)
    for channels in (1, 3):
        assert_brightness(tiff(rows(ink, bits, order), SIDE, bits, 5, 4, order), share, channels)


def test_cie_lab_is_read_in_grey_as_in_colour() -> None:
    lightness = np.arange(0, 256, 36)[:SIDE]
    values = np.stack([lightness, 0 * lightness, 0 * lightness], axis=1)
    content = tiff(rows(values, 8), SIDE, 8, 8, 3)
    grey, colour = read(content), read(content, 3)
    assert np.abs(grey - colour).max() <= 1
    assert np.all(np.diff(grey[0, :, 0]) > 0)
    assert (grey[0, 0, 0], grey[0, -1, 0] > 245) == (0, True)


@pytest.mark.parametrize("quality", [90, 100])
def test_jpegs_in_cmyk_are_not_negatives(quality: int) -> None:
    ramp = np.tile(np.linspace(0, 255, SIDE).astype(np.uint8), (SIDE, 1))
    file = io.BytesIO()
    Image.fromarray(ramp).convert("RGB").convert("CMYK").save(file, "JPEG", quality=quality)
    for channels in (1, 3):
        assert np.abs(read(file.getvalue(), channels)[..., 0] - ramp).max() <= 8


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_each_orientation_is_applied_once(kind: str, orientation: int) -> None:
    upright = np.repeat(np.repeat(np.array([[10, 90], [170, 250]], np.uint8), 4, 0), 4, 1)
    turns: list[Callable[[NDArray[np.uint8]], NDArray[np.uint8]]] = [
        lambda a: a, lambda a: a[:, ::-1], lambda a: a[::-1, ::-1], lambda a: a[::-1],
        lambda a: a.T, np.rot90, lambda a: np.rot90(a, 2).T, lambda a: np.rot90(a, -1),
    ]  # fmt: skip
    exif = Image.Exif()
    exif[0x0112] = orientation
    file, stored = io.BytesIO(), turns[orientation - 1](upright)
    image = Image.fromarray(np.ascontiguousarray(stored)).convert("RGB")
    image.save(file, kind, exif=exif, **({"lossless": True} if kind == "WEBP" else {}))
    found = read(file.getvalue())[..., 0]
    assert np.abs(found - upright).max() <= (12 if kind == "JPEG" else 1)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (tiff([bytes(SIDE)] * SIDE, SIDE, 8, 1, more={339: [2]}), "signed integers"),
        (tiff([bytes(2 * SIDE)] * SIDE, SIDE, 16, 1, more={339: [2]}), "of unknown range"),
        (tiff([bytes(4 * SIDE)] * SIDE, SIDE, 32, 1), "of unknown range"),
        (tiff([bytes(4 * SIDE)] * SIDE, SIDE, 32, 1, more={339: [3]}), "floats of unknown range"),
        (tiff([bytes(8 * SIDE)] * SIDE, SIDE, 64, 1, more={339: [3]}), "this kind of TIFF is not"),
        (tiff([bytes(4 * SIDE)] * SIDE, SIDE, 16, 1, 2, more={338: [2]}), "this kind of TIFF is"),
        (b"Pf 8 8 -1.0\n" + bytes(4 * SIDE * SIDE), "floats of unknown range"),
    ],
)
def test_what_has_no_known_brightness_is_refused_with_a_reason(content: bytes, reason: str) -> None:
    with pytest.raises((BadImageError, ValueError), match=reason):
        read(content)
