"""The digits, their division among clients, and batches."""

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from server_app.composition import compose_experiment
from task.data.batches import DeviceImages, training_batches
from task.data.federated import federate, hold_out
from task.data.partitions.base import Division, Partition
from task.data.partitions.dirichlet import Dirichlet
from task.data.partitions.iid import Iid
from task.data.sources.digits import Digits
from task.errors import ConfigError
from task.seeding import derived_seed, numpy_generator

LABELS = np.repeat(np.arange(10), 150)


def assert_divides(division: Division, images: int, clients: int, least: int) -> None:
    assert len(division.clients) == clients
    assert np.array_equal(np.sort(np.concatenate(division.clients)), np.arange(images))
    assert min(len(part) for part in division.clients) >= least


class TestDigits:
    def test_are_the_real_ones_scaled_with_every_class_held_out(self) -> None:
        data = Digits(image_size=32).load()
        assert data.images.shape == (1797, 1, 32, 32)
        assert data.images.dtype == np.uint8
        assert (data.images.min(), data.images.max()) == (0, 255)
        assert np.array_equal(np.sort(np.concatenate([data.train, data.test])), np.arange(1797))
        assert len(data.test) == 360
        assert np.bincount(data.labels[data.test]).min() >= 34

    def test_the_test_set_does_not_follow_the_experiments_seed(self) -> None:
        first, second = (federate(compose_experiment([f"seed={s}"]).local()) for s in (0, 1))
        assert np.array_equal(first.dataset.test, second.dataset.test)
        assert not np.array_equal(first.clients[0].train, second.clients[0].train)


class TestPartitions:
    @settings(max_examples=60, deadline=None)
    @given(
        alpha=st.floats(1e-3, 1e3),
        clients=st.integers(1, 150),
        seed=st.integers(0, 2**32 - 1),
    )
    @example(alpha=0.01, clients=100, seed=0)
    @example(alpha=1e-3, clients=150, seed=0)
    def test_dirichlet_divides_everything_and_always_ends(
        self, alpha: float, clients: int, seed: int
    ) -> None:
        partition = Dirichlet(min_images=10, alpha=alpha)
        first, again = (
            partition.divide(LABELS, clients, numpy_generator(seed, "test")) for _ in range(2)
        )
        assert_divides(first, len(LABELS), clients, 10)
        assert all(map(np.array_equal, first.clients, again.clients))

    def test_a_repair_is_reported(self) -> None:
        partition = Dirichlet(min_images=10, alpha=0.01)
        assert "moved" in partition.divide(LABELS, 100, numpy_generator(0, "test")).note

    @pytest.mark.parametrize(("alpha", "least", "most"), [(0.01, 1, 3), (1000, 10, 10)])
    def test_alpha_sets_how_many_classes_a_client_sees(
        self, alpha: float, least: int, most: int
    ) -> None:
        division = Dirichlet(min_images=10, alpha=alpha).divide(LABELS, 10, numpy_generator(0))
        classes = [len(np.unique(LABELS[part])) for part in division.clients]
        assert least <= np.median(classes) <= most

    def test_iid_deals_everything_out_evenly(self) -> None:
        division = Iid(min_images=10).divide(LABELS, 7, numpy_generator(0))
        assert_divides(division, len(LABELS), 7, 214)

    @pytest.mark.parametrize("partition", [Iid(10), Dirichlet(10, 0.3)])
    def test_more_clients_than_the_images_can_serve_are_refused(self, partition: Partition) -> None:
        with pytest.raises(
            ConfigError, match="num_clients=151: 1500 training images serve at most"
        ):
            partition.divide(LABELS, 151, numpy_generator(0))


class TestFederate:
    def test_clients_share_the_training_images_and_hold_a_tenth_out(self) -> None:
        data = federate(compose_experiment([]).local())
        parts = [part for client in data.clients for part in client]
        assert np.array_equal(np.sort(np.concatenate(parts)), data.dataset.train)
        for client in data.clients:
            size = len(client.train) + len(client.validation)
            assert len(client.validation) == int(size / 10 + 0.5)

    @pytest.mark.parametrize(
        ("images", "validation"), [(0, 0), (1, 0), (2, 1), (14, 1), (15, 2), (100, 10)]
    )
    def test_small_clients(self, images: int, validation: int) -> None:
        split = hold_out(np.arange(images), numpy_generator(0))
        assert (len(split.train), len(split.validation)) == (images - validation, validation)


class TestBatches:
    @given(images=st.integers(1, 300), size=st.integers(2, 64))
    @example(images=127, size=2)
    def test_leave_no_image_out_and_none_is_tiny(self, images: int, size: int) -> None:
        batches = training_batches(torch.arange(images), size)
        assert torch.equal(torch.cat(batches), torch.arange(images))
        if images >= size:
            assert all(size <= 2 * len(batch) <= 3 * size for batch in batches)
            assert all(len(batch) > 1 for batch in batches)

    def test_are_normalised_as_the_data_set_says(self) -> None:
        """Grey 0 and 255 with mean 0.5 and std 0.5 become -1 and 1."""
        data = Digits(image_size=32).load()
        x, y = DeviceImages(data, torch.device("cpu"))[torch.arange(8)]
        expected = (torch.from_numpy(data.images[:8]).float() / 255 - 0.5) / 0.5
        assert torch.allclose(x, expected, atol=1e-6)
        assert y.tolist() == data.labels[:8].tolist()


def test_seeds_tell_their_purposes_apart() -> None:
    keys: list[tuple[int | str, ...]] = [
        ("a", 1, 2),
        ("a", 2, 1),
        ("a", 12),
        ("b", 1, 2),
        ("a1", 2),
    ]
    assert len({derived_seed(0, *key) for key in keys} | {derived_seed(1, *keys[0])}) == 6
