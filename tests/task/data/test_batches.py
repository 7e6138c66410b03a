"""Batches of images, and their augmentation."""

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor
from torchvision.transforms import functional

from server_app.config.composition import compose_experiment
from task.data.augmentations.base import Augmentation
from task.data.augmentations.crop_flip import CropFlip
from task.data.augmentations.none import NoAugmentation
from task.data.augmentations.resized_crop import STEPS, ResizedCrop
from task.data.batches import DeviceImages, epoch_batches, largest_batch, training_batches
from task.data.image_store.store import open_dataset
from task.data.sources.digits import Digits
from task.errors import ConfigError
from task.seeding import derived_seed, torch_generator
from task.training.worker import Worker

KEY = (0, "local", 1, 0)


def digits() -> DeviceImages:
    return DeviceImages(open_dataset(Digits(image_size=32)), torch.device("cpu"))


def augmented(
    images: DeviceImages, positions: Tensor, size: int, augmentation: Augmentation, epoch: int
) -> list[tuple[Tensor, Tensor]]:
    batches = epoch_batches(positions, size, "merge", augmentation, KEY, epoch)
    return [images.augmented(*batch, augmentation) for batch in batches]


class TestBatches:
    @given(images=st.integers(1, 300), size=st.integers(2, 64))
    @example(images=127, size=2)
    def test_use_every_image_and_none_is_tiny(self, images: int, size: int) -> None:
        batches = training_batches(torch.arange(images), size)
        assert torch.equal(torch.cat(batches), torch.arange(images))
        if images >= size:
            assert all(size <= 2 * len(batch) <= 3 * size for batch in batches)
            assert all(1 < len(batch) <= largest_batch(size) for batch in batches)

    @given(images=st.integers(1, 300), size=st.integers(2, 64))
    def test_without_the_last_one_are_full(self, images: int, size: int) -> None:
        """Fewer images than a batch are one batch, since a client must train."""
        batches = training_batches(torch.arange(images), size, "drop")
        assert torch.equal(torch.cat(batches), torch.arange(sum(map(len, batches))))
        full = [size] * (images // size)
        assert [len(batch) for batch in batches] == (full or [images])

    @given(size=st.integers(2, 64))
    def test_reach_the_largest_size(self, size: int) -> None:
        lengths = [
            len(training_batches(torch.arange(images), size)[-1])
            for images in range(size, 2 * size + 1)
        ]
        assert max(lengths) == largest_batch(size)

    def test_are_normalised_with_mean_and_std_of_the_data_set(self) -> None:
        """Grey 0 and 255 with mean 0.5 and std 0.5 become -1 and 1."""
        data = open_dataset(Digits(image_size=32))
        x, y = digits()[torch.arange(8)]
        grey = torch.from_numpy(np.asarray(data.images[:8])).permute(0, 3, 1, 2)
        assert torch.allclose(x, (grey.float() / 255 - 0.5) / 0.5, atol=1e-6)
        assert y.tolist() == data.labels[:8].tolist()
        assert x.shape == (8, 1, 32, 32)

    def test_each_epoch_has_every_image_once_in_its_own_order(self) -> None:
        images, positions = digits(), torch.arange(100, 177)
        seen = [
            torch.cat([y for _, y in augmented(images, positions, 20, NoAugmentation(), e)])
            for e in (0, 0, 1)
        ]
        assert torch.equal(seen[0], seen[1])
        assert not torch.equal(seen[0], seen[2])
        expected = images.labels(positions).sort().values
        assert all(torch.equal(labels.sort().values, expected) for labels in seen)

    def test_changes_are_drawn_anew_in_each_epoch(self) -> None:
        """A new order of the images does not replace them."""
        seeds: list[int] = []

        class Recorded(NoAugmentation):
            def draw(self, images: int, generator: torch.Generator) -> torch.Tensor:
                seeds.append(generator.initial_seed())
                return super().draw(images, generator)

        for epoch in range(3):
            list(epoch_batches(torch.arange(9), 8, "merge", Recorded(), KEY, epoch))
        assert len(set(seeds)) == 3


def shifted(image: torch.Tensor, padding: int, top: int, left: int, flip: int) -> torch.Tensor:
    """Return one image's crop by definition: pad with black, crop, flip."""
    height, width, channels = image.shape
    padded = torch.zeros(height + 2 * padding, width + 2 * padding, channels, dtype=torch.uint8)
    padded[padding : padding + height, padding : padding + width] = image
    cut = padded[top : top + height, left : left + width]
    return cut.flip(1) if flip else cut


class TestCropFlip:
    @given(
        images=st.integers(1, 9), height=st.integers(1, 12), width=st.integers(1, 12),
        channels=st.sampled_from([1, 3]), padding=st.integers(0, 5), seed=st.integers(0, 99),
    )  # fmt: skip
    def test_a_batch_equals_its_images_one_by_one(
        self, images: int, height: int, width: int, channels: int, padding: int, seed: int
    ) -> None:
        generator = torch_generator(seed)
        shape = (images, height, width, channels)
        pixels = torch.randint(256, shape, dtype=torch.uint8, generator=generator)
        augmentation = CropFlip(padding)
        changes = augmentation.draw(images, generator)
        expected = [
            shifted(image, padding, *change.tolist())
            for image, change in zip(pixels, changes, strict=True)
        ]
        assert torch.equal(augmentation.apply(pixels, changes), torch.stack(expected))

    def test_draws_every_shift_and_flips_half(self) -> None:
        changes = CropFlip(4).draw(5000, torch_generator(0))
        assert set(changes[:, 0].tolist()) == set(changes[:, 1].tolist()) == set(range(9))
        assert set(changes[:, 2].tolist()) == {0, 1}
        assert 0.47 < changes[:, 2].double().mean() < 0.53
        assert abs(changes[:, :2].double().mean() - 4) < 0.1

    def test_images_vary_between_epochs_and_repeat_with_the_seed(self) -> None:
        images, positions = digits(), torch.arange(40)
        runs = [
            torch.cat([x for x, _ in augmented(images, positions, 16, CropFlip(4), e)])
            for e in (0, 0, 1)
        ]
        plain = torch.cat([x for x, _ in augmented(images, positions, 16, NoAugmentation(), 0)])
        assert torch.equal(runs[0], runs[1])
        assert not torch.equal(runs[0], runs[2])
        assert not torch.equal(runs[0], plain)

    @pytest.mark.parametrize("augmentation", ["none", "crop_flip", "resized_crop"])
    def test_training_uses_the_augmentation_of_the_experiment(self, augmentation: str) -> None:
        words = ["local_epochs=1", f"augmentation={augmentation}"]
        config = compose_experiment(words).local()
        worker = Worker(config)
        weights = worker.train(worker.initial_weights(), 1, 1).weights
        plain = Worker(compose_experiment(["local_epochs=1"]).local())
        expected = plain.train(plain.initial_weights(), 1, 1).weights
        same = all(torch.equal(weights[name], expected[name]) for name in weights)
        assert same == (augmentation == "none")


def test_derived_seeds_differ_by_purpose() -> None:
    keys: list[tuple[int | str, ...]] = [
        ("a", 1, 2),
        ("a", 2, 1),
        ("a", 12),
        ("b", 1, 2),
        ("a1", 2),
    ]
    assert len({derived_seed(0, *key) for key in keys} | {derived_seed(1, *keys[0])}) == 6


class TestResizedCrop:
    def changes(self, **draws: float) -> torch.Tensor:
        """Return draws from 0 to 1 for one image: no flip and no jitter, unless given."""
        values = dict.fromkeys(("area", "ratio", "top", "left", "flip", "b", "c", "s"), 0.5)
        return torch.tensor([[round(at * STEPS) for at in {**values, **draws}.values()]])

    def pixels(self, channels: int = 3) -> torch.Tensor:
        shape = (1, 32, 32, channels)
        return torch.randint(256, shape, dtype=torch.uint8, generator=torch_generator(5))

    def test_the_whole_image_is_a_crop_of_its_own_size(self) -> None:
        pixels = self.pixels()
        whole = ResizedCrop(least_area=1, jitter=0.4)
        assert torch.equal(whole.apply(pixels, self.changes()), pixels)
        assert torch.equal(whole.apply(pixels, self.changes(flip=0.1)), pixels.flip(2))

    def test_a_part_is_torchvisions_but_for_its_edge(self) -> None:
        """A window of 16x16 at (6, 10); near its edge torchvision knows no pixels outside of it."""
        pixels = self.pixels()
        changes = self.changes(area=0.0, top=6 / 16, left=10 / 16)
        found = ResizedCrop(least_area=0.25, jitter=0.4).apply(pixels, changes)
        images = pixels.permute(0, 3, 1, 2).float()
        expected = functional.resized_crop(images, 6, 10, 16, 16, [32, 32], antialias=False)
        inner = expected.permute(0, 2, 3, 1)[:, 1:-1, 1:-1]
        assert (found[:, 1:-1, 1:-1].float() - inner).abs().max() <= 0.51

    @pytest.mark.parametrize("channels", [1, 3])
    def test_colours_change_as_in_torchvision(self, channels: int) -> None:
        pixels = self.pixels(channels)
        changes = self.changes(b=0.9, c=0.2, s=0.8)
        found = ResizedCrop(least_area=1, jitter=0.5).apply(pixels, changes)
        x = pixels.permute(0, 3, 1, 2).float() / 255
        x = functional.adjust_contrast(functional.adjust_brightness(x, 1.4), 0.7)
        x = functional.adjust_saturation(x, 1.3) if channels == 3 else x
        assert (found.permute(0, 3, 1, 2).float() - 255 * x).abs().max() <= 0.6

    def test_a_batch_equals_its_images_one_by_one(self) -> None:
        generator = torch_generator(0)
        pixels = torch.randint(256, (7, 24, 24, 3), dtype=torch.uint8, generator=generator)
        augmentation = ResizedCrop(least_area=0.08, jitter=0.4)
        changes = augmentation.draw(7, generator)
        one_by_one = [augmentation.apply(pixels[[at]], changes[[at]]) for at in range(7)]
        assert torch.equal(augmentation.apply(pixels, changes), torch.cat(one_by_one))

    def test_bounds_are_checked(self) -> None:
        for words in ("augmentation.least_area=0", "augmentation.jitter=1.1"):
            with pytest.raises(ConfigError, match="must be"):
                compose_experiment(["augmentation=resized_crop", words]).local().augmenter()
