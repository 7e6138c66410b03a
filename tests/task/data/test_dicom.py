"""DICOM files, made by pydicom or shipped with it, as images of a folder."""

import dataclasses
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
from numpy.typing import NDArray
from pydicom.data import get_testdata_file
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.pixels.processing import apply_modality_lut, apply_voi_lut
from pydicom.uid import UID, CTImageStorage, DeflatedExplicitVRLittleEndian, ExplicitVRLittleEndian
from safetensors.numpy import load_file

from server_app.config.composition import compose_experiment
from task.data.image_store.store import open_dataset, settings_of
from task.data.sources.families import dicom
from task.data.sources.families.tree import open_image
from task.data.sources.folder import Folder
from task.errors import ConfigError, DataError
from tests.conftest import Train
from univarfl.inference.model import trained_model
from univarfl.inference.predict import decode_file

SECRET = "Nobody^Knows"
RAMP = np.arange(4096, dtype=np.uint16).reshape(64, 64)


def scan(pixels: NDArray[Any] = RAMP, **header: object) -> FileDataset:
    """Return a file with pixels [h, w] of 12 bits, and a patient."""
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = CTImageStorage
    meta.MediaStorageSOPInstanceUID = UID("1.2.3")
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    data = FileDataset("scan.dcm", {}, file_meta=meta, preamble=bytes(128))
    data.Rows, data.Columns = pixels.shape
    data.SamplesPerPixel, data.PhotometricInterpretation = 1, "MONOCHROME2"
    data.BitsAllocated, data.BitsStored, data.HighBit = 16, 12, 11
    data.PixelRepresentation, data.PixelData = 0, pixels.astype("<u2").tobytes()
    data.PatientName, data.PatientID, data.PatientBirthDate = SECRET, SECRET, "19700101"
    for key, value in header.items():
        setattr(data, key, value)
    return data


def saved(data: FileDataset, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    data.save_as(path, enforce_file_format=True)
    return path


def read(path: Path, window: list[float] | None = None) -> NDArray[np.int64]:
    with open_image(path, window) as image:
        return np.asarray(image).astype(np.int64)


def shipped(name: str) -> Path:
    return Path(str(get_testdata_file(name, download=False)))


@pytest.mark.parametrize("function", ["LINEAR", "LINEAR_EXACT", "SIGMOID"])
def test_the_window_is_that_of_the_standard(tmp_path: Path, function: str) -> None:
    data = scan(
        RescaleSlope=2, RescaleIntercept=-1024, WindowCenter=[300, 5], WindowWidth=[900, 6],
        VOILUTFunction=function,
    )  # fmt: skip
    expected = apply_voi_lut(apply_modality_lut(RAMP, data), data)
    least, most = -1024, 2 * 4095 - 1024  # of the range that pydicom spreads the window over
    share = (expected - least) / (most - least)
    assert np.abs(read(saved(data, tmp_path / "scan.dcm")) - 255 * share).max() <= 0.5 + 1e-6


def test_all_bits_are_windowed_before_they_are_rounded(tmp_path: Path) -> None:
    path = saved(scan(WindowCenter=2048, WindowWidth=4096), tmp_path / "scan.dcm")
    assert len(np.unique(read(path, [1000, 256]))) == 256
    inside = read(path, [1000, 256]).ravel()[900:1100]
    assert (np.diff(inside) == 1).all()


def test_where_the_least_value_is_white(tmp_path: Path) -> None:
    window = [2048.0, 4096.0]
    dark = read(saved(scan(), tmp_path / "dark.dcm"), window)
    light = saved(scan(PhotometricInterpretation="MONOCHROME1"), tmp_path / "light.dcm")
    assert np.array_equal(read(light, window), 255 - dark)


@pytest.mark.parametrize("name", ["RLE", "bigendian", "implicit", "jp2klossless", "padded"])
def test_one_image_in_several_encodings(name: str) -> None:
    whole = read(shipped("MR_small.dcm"))
    assert whole.max() == 255
    assert np.array_equal(read(shipped(f"MR_small_{name}.dcm")), whole)


@pytest.mark.parametrize(
    ("name", "brightest"),
    [("SC_rgb_rle_16bit.dcm", 255), ("ExplVR_BigEnd.dcm", 255), ("examples_palette.dcm", 254)],
)
def test_colours(name: str, brightest: int) -> None:
    pixels = read(shipped(name))
    assert pixels.shape[2] == 3
    assert pixels.max() == brightest


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("SC_rgb_rle_2frame.dcm", "has 2 frames; save each as a file of its own"),
        ("CT_small.dcm", r"has 16 bits and no window; set data\.window=\[center,width\]"),
        ("MR_small_jpeg_ls_lossless.dcm", "JPEG-LS Lossless Image Compression needs a plugin"),
        ("JPEG-lossy.dcm", r"size of its compressed image \(JPEG Extended .*pylibjpeg"),
        ("image_dfl.dcm", "Deflated Explicit VR Little Endian is not read; save it without"),
        ("MR_truncated.dcm", "they are cut off"),
        ("rtplan.dcm", "has no image"),
        ("badVR.dcm", "is damaged"),
        ("no_meta.dcm", "is damaged"),
    ],
)  # fmt: skip
def test_what_is_not_read_is_named(name: str, reason: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        with pytest.raises(ValueError, match=reason):
            read(shipped(name))
    assert caught == []


def test_sizes_are_bounded_before_anything_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    huge = saved(scan(Rows=30_000, Columns=30_000), tmp_path / "huge.dcm")
    with pytest.raises(ValueError, match=r"30000 x 30000 pixels; at most 40,000,000"):
        read(huge)
    monkeypatch.setattr(dicom, "MOST_RLE", 100)
    with pytest.raises(ValueError, match="the run lengths have more than"):
        read(shipped("MR_small_RLE.dcm"))
    monkeypatch.setattr(dicom, "MOST_BYTES", 1000)
    with pytest.raises(ValueError, match="more than 0 MB"):
        read(shipped("MR_small.dcm"))
    bomb = scan(np.zeros((1000, 1000)))
    bomb.file_meta.TransferSyntaxUID = DeflatedExplicitVRLittleEndian
    monkeypatch.undo()
    monkeypatch.setattr(pydicom, "dcmread", None)  # it would inflate the file
    with pytest.raises(ValueError, match="Deflated Explicit VR"):
        read(saved(bomb, tmp_path / "bomb.dcm"))


@pytest.mark.parametrize(("center", "width"), [("40", "0"), ("1e400", "100")])
def test_a_window_of_no_width_is_refused(tmp_path: Path, center: str, width: str) -> None:
    data = scan(WindowCenter=center, WindowWidth=width)
    with pytest.raises(ValueError, match="a window of no width"):
        read(saved(data, tmp_path / "scan.dcm"))


def test_pydicom_is_needed_for_these_files_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(scan(), tmp_path / "cat" / "scan.dcm")
    saved(scan(), tmp_path / "dog" / "scan.DCM")
    monkeypatch.setitem(sys.modules, "pydicom", None)
    with pytest.raises(ConfigError, match="need pydicom: uv sync --extra dicom"):
        open_dataset(Folder(image_size=16, root=str(tmp_path), classes=None, test_share=0.2))


def test_a_file_without_a_window_is_left_out_or_gets_one(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        saved(scan(RAMP + (name == "dog")), tmp_path / name / "scan.dcm")
    source = Folder(image_size=16, root=str(tmp_path), classes=None, test_share=0.2)
    with pytest.raises(DataError, match=r"12 bits and no window; set data\.window"):
        open_dataset(source)
    windowed = dataclasses.replace(source, window=[2048.0, 4096.0])
    assert open_dataset(windowed).images.max() > 240
    assert "window" not in settings_of(source)  # as in stores that were built before
    assert settings_of(windowed)["window"] == [2048.0, 4096.0]


@pytest.mark.parametrize("window", ["[40]", "[40,0]", "[40,400,1]"])
def test_a_wrong_window_is_refused(window: str) -> None:
    with pytest.raises(ConfigError, match=r"must be \[center,width\] with a width of 1 or more"):
        compose_experiment(["data=folder", "data.root=x", f"data.window={window}"])


def test_nothing_of_a_patient_leaves_the_file(
    tmp_path: Path, train: Train, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither records nor the cache nor messages have a word of the header."""
    monkeypatch.setenv("UNIVARFL_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    root = tmp_path / "scans"
    for number in range(24):
        data = scan(rng.integers(0, 4096, (20, 24)), WindowCenter=2048, WindowWidth=4096)
        saved(data, root / ("cat", "dog")[number % 2] / f"{number}.dcm")
    with pytest.warns(UserWarning, match=re.escape(SECRET)):
        broken = scan(WindowCenter=2048, WindowWidth=4096, StudyDate=SECRET)
    saved(broken, root / "cat" / "date.dcm")
    broken.PixelData = broken.PixelData[:100]
    saved(broken, root / "cat" / "short.dcm")
    assert any(SECRET.encode() in path.read_bytes() for path in root.rglob("*.dcm"))
    words = ["data=folder", f"data.root={root}", "data.image_size=16", "num_clients=2",
             "data.window=[2048,4096]", "partition.min_images=3", "rounds=1"]  # fmt: skip
    run = train(*words)
    text = "".join(capfd.readouterr())
    assert "short.dcm: its pixels cannot be decoded" in (run / "run.json").read_text()
    written = [path for place in (run, tmp_path / "cache") for path in place.rglob("*")]
    assert len(written) > 10
    for path in filter(Path.is_file, written):
        assert SECRET.encode() not in path.read_bytes(), path
    assert SECRET not in text
    assert load_file(run / "model.safetensors")
    classifier = trained_model(run, "cpu").classifier
    pixels = decode_file(next(root.rglob("0.dcm")), classifier)
    assert not isinstance(pixels, str)
    assert pixels.shape == (16, 16, 3)
    assert classifier.window == [2048.0, 4096.0]
