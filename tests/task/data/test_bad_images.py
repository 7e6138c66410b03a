"""Unusual images are converted correctly; broken ones are reported and counted."""

import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from server_app.runs.records.run_record import read_entries
from task.data.dataset import ImageDataset
from task.data.image_store.decoding import BadImageError, decode
from task.data.image_store.store import open_dataset
from task.data.sources.families.tree import open_image
from task.data.sources.folder import Folder
from task.errors import DataError
from tests.conftest import Train
from tests.task.data import making
from tests.task.data.test_sources import opened

NOBODY = 65534


def folder(root: Path) -> ImageDataset:
    source = Folder(image_size=16, root=str(root), classes=None, test_share=0.2)
    return open_dataset(source)


def truncated(path: Path) -> Path:
    """Write a JPEG without its second half, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return path


class TestUnusual:
    @pytest.mark.parametrize(
        ("image", "expected"),
        [
            (Image.new("L", (9, 7), 120), (120, 120, 120)),
            (Image.new("1", (9, 7), 1), (255, 255, 255)),
            (Image.new("LA", (9, 7), (120, 0)), (120, 120, 120)),
            (Image.new("RGBA", (9, 7), (10, 20, 30, 0)), (10, 20, 30)),
            (Image.new("I;16", (9, 7), 0x8080), (128, 128, 128)),
            (Image.new("I", (9, 7), 65535), (255, 255, 255)),
            (Image.new("CMYK", (9, 7), (0, 0, 0, 255)), (0, 0, 0)),
        ],
        ids=lambda value: value.mode if isinstance(value, Image.Image) else "",
    )
    def test_become_eight_bit_colour(
        self, image: Image.Image, expected: tuple[int, ...], tmp_path: Path
    ) -> None:
        path = tmp_path / {"CMYK": "image.tif", "I": "image.pgm"}.get(image.mode, "image.png")
        image.save(path)
        with Image.open(path) as read:
            pixels = decode(read, 8, 3, "squash")
        assert pixels.shape == (8, 8, 3)
        assert pixels.dtype == np.uint8
        assert {tuple(colour) for colour in pixels.reshape(-1, 3).tolist()} == {expected}

    @pytest.mark.filterwarnings("error")
    def test_a_palette_with_transparency_keeps_its_colours(self, tmp_path: Path) -> None:
        image = Image.new("P", (9, 7), 1)
        image.putpalette([0, 0, 0, 10, 20, 30])
        image.save(tmp_path / "image.png", transparency=b"\x00\x80")
        with Image.open(tmp_path / "image.png") as read:
            assert decode(read, 8, 3, "squash")[0, 0].tolist() == [10, 20, 30]

    def test_exif_orientation_is_applied(self, tmp_path: Path) -> None:
        pixels = np.zeros((8, 8, 3), np.uint8)
        pixels[:4] = 255
        exif = Image.Exif()
        exif[0x0112] = 6  # the first row is the right-hand side
        Image.fromarray(pixels).save(tmp_path / "image.png", exif=exif)
        with Image.open(tmp_path / "image.png") as read:
            upright = decode(read, 8, 3, "squash")[..., 0]
        assert upright[:, 4:].min() == 255
        assert upright[:, :4].max() == 0

    @pytest.mark.parametrize(
        "image", [Image.new("F", (4, 4), 0.5), Image.new("I", (4, 4), 200)], ids=["F", "I"]
    )
    def test_pixels_of_unknown_range_are_refused(self, image: Image.Image, tmp_path: Path) -> None:
        image.save(tmp_path / "image.tif")
        with (
            Image.open(tmp_path / "image.tif") as read,
            pytest.raises(BadImageError, match="of unknown range"),
        ):
            decode(read, 4, 3, "squash")


def tiff(row: NDArray[np.uint16], bits: int, photometric: int) -> bytes:
    """Return an uncompressed square TIFF file whose rows are equal, in grey."""
    if bits == 12:
        pairs = row.reshape(-1, 2).astype(int)
        packed = b"".join(
            bytes([a >> 4, (a & 15) << 4 | b >> 8, b & 255]) for a, b in pairs.tolist()
        )
    else:
        packed = row.astype("<u2" if bits == 16 else "u1").tobytes()
    size = len(row)
    tags = {256: size, 257: size, 258: bits, 259: 1, 262: photometric, 273: 8 + 2 + 9 * 12 + 4,
            277: 1, 278: size, 279: size * len(packed)}  # fmt: skip
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    head = b"II*\0" + struct.pack("<IH", 8, len(tags))
    return head + entries + bytes(4) + packed * size


class TestBrightness:
    @pytest.mark.parametrize(("bits", "photometric"), [(8, 0), (8, 1), (12, 1), (16, 0), (16, 1)])
    def test_grey_tiffs_of_each_depth_and_meaning_of_zero(
        self, bits: int, photometric: int, tmp_path: Path
    ) -> None:
        """The largest value is white, or black where 0 is white."""
        bright = np.linspace(0, 1, 64)
        stored = bright if photometric else 1 - bright
        values = np.rint(stored * (2**bits - 1)).astype(np.uint16)
        (tmp_path / "scan.tif").write_bytes(tiff(values, bits, photometric))
        with open_image(tmp_path / "scan.tif") as read:
            pixels = decode(read, 64, 1, "squash")
        assert np.abs(pixels[0, :, 0] - 255 * bright).max() <= 1

    def test_only_the_formats_that_are_meant_are_opened(self, tmp_path: Path) -> None:
        """A file x.png with EPS inside would make Pillow start Ghostscript."""
        picture = Image.new("RGB", (8, 8))
        picture.save(tmp_path / "x.eps")
        (tmp_path / "x.eps").rename(tmp_path / "x.png")
        with pytest.raises(UnidentifiedImageError):
            open_image(tmp_path / "x.png")
        for suffix in ("bmp", "gif", "jpg", "pgm", "png", "ppm", "tif", "webp"):
            picture.convert("L" if suffix == "pgm" else "RGB").save(tmp_path / f"y.{suffix}")
            open_image(tmp_path / f"y.{suffix}").close()

    def test_an_image_with_too_many_pixels_is_not_decoded(self, tmp_path: Path) -> None:
        header = b"P5 9000 9500 255\n"
        (tmp_path / "x.pgm").write_bytes(header + bytes(100))
        with pytest.raises(ValueError, match="9000 x 9500 pixels; at most 80,000,000"):
            open_image(tmp_path / "x.pgm")

    def test_a_pipe_is_not_opened(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "x.png")
        with pytest.raises(ValueError, match="not a regular file"):
            open_image(tmp_path / "x.png")


class TestDark:
    def test_twelve_bit_values_in_sixteen_bit_files_are_noted(self, tmp_path: Path) -> None:
        for number, name in enumerate(("cat", "dog")):
            (tmp_path / name).mkdir()
            Image.new("I;16", (8, 8), 4095 - 512 * number).save(tmp_path / name / "scan.png")
        assert folder(tmp_path).notes == (
            "no pixel is brighter than 16 of 255; check the bit depth of the files",
        )


class TestBroken:
    def test_broken_images_of_a_folder_are_skipped_counted_and_named(self, tmp_path: Path) -> None:
        making.tree(tmp_path, ["cat", "dog"], 10)
        truncated(tmp_path / "cat" / "broken.jpg")
        (tmp_path / "dog" / "text.png").write_text("not an image at all")
        (tmp_path / "dog" / "void.png").touch()
        data = folder(tmp_path)
        reasons = {Path(name).name: reason for name, reason in data.skipped}
        assert reasons.pop("broken.jpg").startswith("image file is truncated")
        assert reasons == {"text.png": "not an image", "void.png": "not an image"}
        assert len(data.train) + len(data.test) == 20
        left_out = set(range(23)) - set(data.train) - set(data.test)
        assert {data.classes[data.labels[index]] for index in left_out} == {"cat", "dog"}

    def test_a_runs_record_counts_them(
        self, tmp_path: Path, train: Train, capsys: pytest.CaptureFixture[str]
    ) -> None:
        making.tree(tmp_path / "images", ["cat", "dog"], 40)
        (tmp_path / "images" / "dog" / "text.png").write_text("not an image at all")
        words = ["data=folder", f"data.root={tmp_path / 'images'}", "data.image_size=32"]
        record = read_entries(train(*words, "rounds=1", "num_clients=2"))
        assert record["data"]["skipped"] == 1
        (note,) = record["data"]["notes"]
        assert note.startswith("1 of 81 images were left out, such as ")
        assert note.endswith("such as dog/text.png: not an image")
        assert f"warning: data: {note}" in capsys.readouterr().out

    def test_a_broken_image_of_a_benchmark_is_an_error(self, tmp_path: Path) -> None:
        making.pacs(tmp_path, each=41)
        truncated(tmp_path / "photo" / "dog" / "pic_007.jpg")
        with pytest.raises(DataError, match=r"photo/dog/pic_007\.jpg: image file is truncated"):
            opened("data=pacs", f"data.root={tmp_path}")

    def test_a_folder_with_only_broken_images_is_refused(self, tmp_path: Path) -> None:
        truncated(tmp_path / "cat" / "a.jpg")
        truncated(tmp_path / "dog" / "b.jpg")
        with pytest.raises(
            DataError, match=r"cat/a\.jpg: .*truncated.*; no other image can be read either"
        ):
            folder(tmp_path)

    def test_a_link_without_a_target_is_reported(self, tmp_path: Path) -> None:
        making.tree(tmp_path, ["cat", "dog"], 2)
        (tmp_path / "cat" / "link.png").symlink_to(tmp_path / "nothing.png")
        with pytest.raises(DataError, match=r"cat/link\.png: no such file"):
            folder(tmp_path)

    def test_a_directory_without_images_is_no_class(self, tmp_path: Path) -> None:
        making.tree(tmp_path, ["cat", "dog"], 5)
        (tmp_path / "fox").mkdir()
        with pytest.raises(DataError, match="fox: has no images; remove it or, if it is a"):
            folder(tmp_path)

    def test_what_an_archive_of_macos_adds_is_ignored(self, tmp_path: Path) -> None:
        making.tree(tmp_path, ["cat", "dog"], 5)
        making.tree(tmp_path / "__MACOSX", ["cat"], 1)
        assert folder(tmp_path).classes == ("cat", "dog")

    def test_a_class_can_be_without_images_in_one_split(self, tmp_path: Path) -> None:
        making.tree(tmp_path, ["train/cat", "train/dog", "test/dog"], 5)
        (tmp_path / "test" / "cat").mkdir()
        assert folder(tmp_path).classes == ("cat", "dog")

    def test_a_class_outside_the_given_ones_is_reported(self, tmp_path: Path) -> None:
        making.tree(tmp_path, ["cat", "dog", "fox"], 2)
        with pytest.raises(DataError, match=r"fox: class 'fox' is not one of .* cat, dog"):
            opened("data=folder", f"data.root={tmp_path}", "data.classes=[cat,dog]")


@contextmanager
def as_ordinary_user(*places: Path) -> Iterator[None]:
    """Continue as an ordinary user if we are root, who may read everything."""
    if os.geteuid():
        yield
        return
    for place in places:
        os.chown(place, NOBODY, NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize(
    ("forbidden", "message"),
    [
        ("cat", r"images/cat: permission denied"),
        ("cat/pic_000.png", r"cat/pic_000\.png: permission denied"),
        ("", r"images: permission denied"),
    ],
)
def test_unreadable_files_are_reported(
    forbidden: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory() as place:
        top = Path(place)
        top.chmod(0o755)
        (top / "cache").mkdir()
        monkeypatch.setenv("UNIVARFL_CACHE", str(top / "cache"))
        making.tree(top / "images", ["cat", "dog"], 2)
        (top / "images" / forbidden).chmod(0)
        with as_ordinary_user(top / "cache"), pytest.raises(DataError, match=message):
            folder(top / "images")
        (top / "images" / forbidden).chmod(0o755)
