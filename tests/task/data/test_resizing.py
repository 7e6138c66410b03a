"""Images that are not square: squashed, cropped or padded, by Pillow and by PyTorch alike."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from server_app.config.composition import compose_experiment
from task.data.image_store.decoding import decode
from task.data.image_store.store import digest, open_dataset, settings_of, store_root
from task.data.resizing import resized
from task.data.sources.base import Interpolation, Resize
from task.data.sources.folder import Folder
from task.errors import ConfigError
from task.seeding import torch_generator
from tests.task.data import tables

MODES: tuple[Resize, ...] = ("squash", "crop", "pad")
SHAPES = [(40, 61), (61, 40), (17, 200), (9, 12), (30, 30), (1, 300)]


def tensor_of(image: Image.Image) -> torch.Tensor:
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].float()


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_pytorch_does_what_pillow_does(
    mode: Resize, shape: tuple[int, int], interpolation: Interpolation
) -> None:
    pixels = torch.rand(*shape, 3, generator=torch_generator(0, "resizing")) * 255
    if interpolation == "bicubic":  # Pillow also cuts off between the two directions
        pixels = pixels / 2 + 64
    image = Image.fromarray(pixels.to(torch.uint8).numpy())
    expected = (
        torch.from_numpy(decode(image, 24, 3, mode, interpolation).copy()).permute(2, 0, 1).float()
    )
    found = resized(tensor_of(image), 24, mode, interpolation)[0]
    most = {"bilinear": 1.01, "bicubic": 1.3}[interpolation]
    assert float((found - expected).abs().max()) <= most  # Pillow rounds after each direction


def numbered(height: int, width: int) -> Image.Image:
    values = np.arange(1, height * width + 1, dtype=np.uint8).reshape(height, width)
    return Image.fromarray(values)


def test_crop_takes_the_middle_of_the_longer_side() -> None:
    wide, high = numbered(4, 9), numbered(9, 4)
    assert np.array_equal(decode(wide, 4, 1, "crop")[..., 0], np.asarray(wide)[:, 2:6])
    assert np.array_equal(decode(high, 4, 1, "crop")[..., 0], np.asarray(high)[2:6])


def test_pad_keeps_the_whole_image_between_black_borders() -> None:
    wide = numbered(4, 8)
    found = decode(wide, 8, 1, "pad")[..., 0]
    assert np.array_equal(found[2:6], np.asarray(wide))
    assert not found[:2].any()
    assert not found[6:].any()


def test_each_way_has_a_store_and_a_version_of_its_own(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        for place in range(5):
            numbered(8, 12 + place).save(tmp_path / name / f"{place}.png")
    squash = Folder(image_size=8, root=str(tmp_path), classes=None, test_share=0.2)
    assert "resize" not in settings_of(squash)  # as in stores that were built before
    other = dataclasses.replace(squash, validation_share=0.0, normalisation="none")
    assert settings_of(other) == settings_of(squash)
    assert "interpolation" not in settings_of(squash)
    contents = set()
    for mode in MODES:
        source = dataclasses.replace(squash, resize=mode)
        contents.add(open_dataset(source).content)
        assert (store_root() / f"folder-{digest(settings_of(source))}").is_dir()
        source = dataclasses.replace(source, interpolation="bicubic")
        contents.add(open_dataset(source).content)
    assert len(contents) == 2 * len(MODES) - 1  # crop cuts these images, and resizes none


@pytest.mark.parametrize("data", ["generated", "vectors"])
def test_what_is_not_resized_has_no_interpolation(data: str, tmp_path: Path) -> None:
    words = [f"data={data}", "data.interpolation=bicubic"]
    if data == "vectors":
        place = tables.write(tmp_path / "people", tables.people_schema(), tables.people())
        words.append(f"data.root={place}")
    with pytest.raises(ConfigError, match=r"data\.interpolation=bicubic: has no effect with this"):
        compose_experiment(words)
