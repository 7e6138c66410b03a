"""Clients' images are drawn on demand, and partitions among many clients are stored."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server_app.config.composition import compose_experiment
from server_app.runs.records.client_counts import MOST_LISTED, recorded_counts
from task.data.federated import FederatedData, federate
from task.data.image_store.store import open_dataset
from task.data.partitions.base import fill_smallest
from task.data.partitions.iid import IidPartitioner
from task.data.splits import stored
from task.data.splits.clients import ClientImages, hold_out
from univarfl.records.labels import client_count, counts_in_words

MANY = (
    "data=generated", "data.image_size=8", "data.num_images=4004", "data.test_images=10",
    "num_clients=1001", "partition.min_images=3",
)  # fmt: skip


@given(
    sizes=st.lists(st.integers(0, 60), min_size=1, max_size=30),
    share=st.sampled_from([0.0, 0.05, 0.1, 0.5]),
)
def test_sizes_are_those_of_the_images_drawn(sizes: list[int], share: float) -> None:
    parts = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    clients = ClientImages.of(parts, 0, share)
    train, validation = clients.sizes()
    assert [len(clients[client].train) for client in clients] == train.tolist()
    assert [len(clients[client].validation) for client in clients] == validation.tolist()
    for part, split in zip(parts, clients.values(), strict=True):
        assert np.array_equal(np.sort(np.concatenate(split)), part)
    held_out = clients.held_out()
    assert np.array_equal(
        clients.positions[held_out], np.concatenate([each.validation for each in clients.values()])
    )
    assert clients.owners().tolist() == np.repeat(range(len(sizes)), sizes).tolist()


def test_a_client_that_does_not_exist_has_no_images() -> None:
    clients = ClientImages(np.arange(10), np.array([0, 10]), 0, 0.1, first=3)
    assert list(clients) == [3]
    assert 0 not in clients
    for client in (-1, 0, 4):
        with pytest.raises(KeyError):
            clients[client]


def test_clients_hold_out_other_places_among_their_images() -> None:
    """Positions are ascending and data sets often ordered, so equal places would be alike."""
    held = {tuple(hold_out(np.arange(100), 0, client, 0.1).validation) for client in range(3)}
    assert len(held) == 3


def moved_one_by_one(sizes: list[int], minimum: int) -> list[int]:
    """Return the sizes after moves from the first largest part to the first smallest."""
    sizes = list(sizes)
    while min(sizes) < minimum:
        smallest, largest = sizes.index(min(sizes)), sizes.index(max(sizes))
        count = min(minimum - sizes[smallest], (sizes[largest] - sizes[smallest]) // 2)
        sizes[smallest] += count
        sizes[largest] -= count
    return sizes


@settings(deadline=None)
@given(sizes=st.lists(st.integers(0, 50), min_size=2, max_size=40))
def test_small_parts_are_filled_from_the_first_of_the_largest(sizes: list[int]) -> None:
    minimum = sum(sizes) // len(sizes)
    parts = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    fill_smallest(parts, minimum)
    assert list(map(len, parts)) == moved_one_by_one(sizes, minimum)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(sum(sizes)))


class TestStored:
    @pytest.fixture(autouse=True)
    def own_place(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place = tmp_path
        monkeypatch.setenv("UNIVARFL_CACHE", str(tmp_path))

    def federated(self, monkeypatch: pytest.MonkeyPatch, *words: str) -> FederatedData:
        """Return the data as a process that starts now sees them."""
        monkeypatch.setattr("task.data.federated._latest_split", {})
        return federate(compose_experiment([*MANY, *words]).local())

    def files(self) -> list[Path]:
        return sorted((self.place / stored.DIRECTORY).glob("*"))

    def test_a_second_process_does_not_partition_again(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = self.federated(monkeypatch)

        def refuse(*_: object) -> None:
            raise AssertionError("partitioned again")

        monkeypatch.setattr(IidPartitioner, "partition", refuse)
        second = self.federated(monkeypatch)
        assert isinstance(second.clients.positions.base, np.memmap)
        for client in (0, 500, 1000):
            for one, other in zip(first.clients[client], second.clients[client], strict=True):
                assert np.array_equal(one, other)
        with pytest.raises(AssertionError, match="again"):
            self.federated(monkeypatch, "seed=1")

    def test_the_stored_partition_is_the_computed_one(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        kept = self.federated(monkeypatch)
        monkeypatch.setattr("task.data.federated.MOST_COMPUTED", 2000)
        computed = self.federated(monkeypatch)
        assert np.array_equal(kept.clients.positions, computed.clients.positions)
        assert np.array_equal(kept.clients.offsets, computed.clients.offsets)
        assert kept.notes == computed.notes

    @pytest.mark.parametrize("place", [0, -1, 5000])
    def test_a_damaged_file_is_written_again(
        self, monkeypatch: pytest.MonkeyPatch, place: int
    ) -> None:
        whole = self.federated(monkeypatch).clients.positions.copy()
        (path,) = self.files()
        content = bytearray(path.read_bytes())
        content[place] ^= 1
        if place < 0:
            del content[-100:]
        path.write_bytes(content)
        assert np.array_equal(self.federated(monkeypatch).clients.positions, whole)
        assert stored.read(path) is not None

    def test_the_partitions_used_last_are_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(stored, "KEPT", 2)
        self.federated(monkeypatch)
        (oldest,) = self.files()
        os.utime(oldest, (0, 0))
        for seed in (1, 2):
            self.federated(monkeypatch, f"seed={seed}")
        assert len(self.files()) == 2
        assert oldest not in self.files()


class TestGenerated:
    def test_classes_have_equally_many_images_that_a_mean_tells_apart(self) -> None:
        words = ["data=generated", "data.num_images=500", "data.test_images=100"]
        data = federate(compose_experiment([*words, "num_clients=5"]).local()).dataset
        assert np.bincount(data.labels[data.train]).tolist() == [50] * 10
        pixels = data.images.reshape(len(data.images), -1).astype(float)
        means = np.stack([pixels[data.train][data.labels[data.train] == c].mean(0)
                          for c in range(10)])  # fmt: skip
        nearest = ((pixels[data.test][:, None] - means) ** 2).sum(2).argmin(1)
        assert (nearest == data.labels[data.test]).mean() > 0.95
        assert len(np.unique(pixels, axis=0)) == 600

    def test_each_image_is_the_one_that_is_read_by_itself(self) -> None:
        words = ["data=generated", "data.image_size=64", "data.num_images=600", "num_clients=2"]
        source = compose_experiment(words).local().source()
        index, data = source.dataset_index(), open_dataset(source)
        assert index.blocks is not None
        assert index.blocks.number > 1
        for image in (0, 255, 256, 599):
            assert np.array_equal(np.asarray(index.read(image)), data.images[image, :, :, 0])


class TestCounts:
    def test_few_clients_are_listed(self) -> None:
        assert recorded_counts([3, 4]) == [3, 4]
        assert (client_count([3, 4]), counts_in_words([3, 4])) == (2, "3, 4")

    def test_many_clients_are_summarised_by_numbers_that_some_have(self) -> None:
        found = recorded_counts([1] * 700 + [10] * 600 + [99])
        assert found == {
            "count": MOST_LISTED + 301, "min": 1, "median": 1, "max": 99,
            "deciles": [1, 1, 1, 1, 1, 10, 10, 10, 10],
        }  # fmt: skip
        assert client_count(found) == 1301
        assert counts_in_words(found) == "1 to 99, median 1"
