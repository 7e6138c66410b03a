"""The split by groups: whole groups, a sample of them, or groups that are divided."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server_app.config.composition import compose_experiment
from task.data.federated import federate
from task.data.partitions.base import PartitionResult, TrainingPool
from task.data.partitions.natural import NaturalPartitioner, clients_of
from task.errors import ConfigError
from task.seeding import numpy_generator
from tests.task.data import making

SIZES = st.lists(st.integers(0, 200), min_size=2, max_size=30)
SEEDS = st.integers(0, 2**32 - 1)


def pool(sizes: list[int]) -> TrainingPool:
    """Return groups of these sizes, whose images are mixed."""
    group_of = np.random.default_rng(1).permutation(np.repeat(np.arange(len(sizes)), sizes))
    names = [f"writer {number}" for number in range(len(sizes))]
    return TrainingPool(np.zeros(len(group_of), dtype=np.int64), group_of, names)


def split(
    sizes: list[int], clients: int, seed: int = 0, alpha: float | None = None
) -> PartitionResult:
    return NaturalPartitioner(10, alpha).partition(pool(sizes), clients, numpy_generator(seed))


def groups_in(sizes: list[int], result: PartitionResult) -> list[int]:
    """Return each client's group, of which it must be the only one."""
    group_of = pool(sizes).domain_of
    groups = [np.unique(group_of[part]).tolist() for part in result.clients]
    assert all(len(group) == 1 for group in groups)
    return [group[0] for group in groups]


@settings(deadline=None)
@given(sizes=SIZES, share=st.floats(0, 1), seed=SEEDS)
def test_clients_are_whole_groups_that_are_large_enough(
    sizes: list[int], share: float, seed: int
) -> None:
    usable = [group for group, size in enumerate(sizes) if size >= 10]
    clients = round(share * len(usable))
    if not clients:
        return
    result = split(sizes, clients, seed)
    drawn = groups_in(sizes, result)
    assert drawn == sorted(set(drawn))
    assert set(drawn) <= set(usable)
    for group, part in zip(drawn, result.clients, strict=True):
        assert part.tolist() == np.flatnonzero(pool(sizes).domain_of == group).tolist()


@settings(deadline=None)
@given(
    sizes=SIZES.filter(lambda sizes: max(sizes) >= 20), share=st.floats(0, 1), seed=SEEDS,
    alpha=st.floats(-3, 6).map(lambda power: 10.0**power),
)  # fmt: skip
def test_divided_groups_are_complete_and_every_client_has_its_minimum(
    sizes: list[int], share: float, seed: int, alpha: float
) -> None:
    usable = [group for group, size in enumerate(sizes) if size >= 10]
    most = sum(size // 10 for size in sizes)
    clients = len(usable) + round(share * (most - len(usable)))
    result = split(sizes, clients, seed, alpha)
    held = np.concatenate(result.clients)
    assert len(result.clients) == clients
    assert np.array_equal(np.sort(held), np.flatnonzero(np.isin(pool(sizes).domain_of, usable)))
    assert min(map(len, result.clients)) >= 10
    assert all(np.array_equal(part, np.sort(part)) for part in result.clients)
    found = groups_in(sizes, result)
    assert found == sorted(found)
    assert set(found) == set(usable)


@pytest.mark.parametrize(("clients", "alpha"), [(3, None), (20, 1.0)])
def test_equal_seeds_give_equal_clients_and_others_do_not(
    clients: int, alpha: float | None
) -> None:
    sizes = [100, 90, 80, 70, 60, 50]
    first, again, other = (
        [part.tolist() for part in split(sizes, clients, seed, alpha).clients] for seed in (0, 0, 1)
    )
    assert first == again
    assert first != other


def test_every_group_can_be_drawn() -> None:
    sizes = [20] * 6
    drawn = {group for seed in range(60) for group in groups_in(sizes, split(sizes, 1, seed))}
    assert drawn == set(range(6))


def test_the_note_counts_what_is_left_out() -> None:
    assert split([30, 20, 10], 3).note == ""
    assert split([30, 20, 9, 3, 0], 2).note == (
        "left out: 2 of 4 groups, each with fewer than 10 (partition.min_images) images, "
        "together 12"
    )
    assert split([20, 20, 20, 9], 1).note.endswith("; not drawn: 2 of 3 groups, 40 images")


@settings(deadline=None)
@given(
    sizes=st.lists(st.integers(1, 500), min_size=1, max_size=20), more=st.integers(0, 100),
    factor=st.integers(2, 5),
)  # fmt: skip
def test_groups_get_clients_in_proportion_to_their_images(
    sizes: list[int], more: int, factor: int
) -> None:
    """No group would have more images for each client with one more than another group has now."""
    counts = clients_of(sizes, len(sizes) + more)
    assert counts.sum() == len(sizes) + more
    assert counts.min() >= 1
    several = [size / count for size, count in zip(sizes, counts, strict=True) if count > 1]
    next_ones = [size / (count + 1) for size, count in zip(sizes, counts, strict=True)]
    assert min(several, default=np.inf) >= max(next_ones)
    assert np.array_equal(clients_of([factor * size for size in sizes], len(sizes) + more), counts)


def test_size_alpha_sets_how_uneven_the_clients_are() -> None:
    largest = {
        alpha: np.mean([
            max(map(len, split([1000, 1000], 20, seed, alpha).clients)) for seed in range(20)
        ])
        for alpha in (0.01, 1.0, 1e6)
    }  # fmt: skip
    assert largest[0.01] > 700
    assert 150 < largest[1.0] < 500
    assert largest[1e6] <= 101


class TestRefused:
    def test_more_clients_than_groups(self) -> None:
        message = (
            r"num_clients=4: the data set has 3 groups with at least 10 training images "
            r"\(partition.min_images\); use at most 3 clients, or .* partition.size_alpha=1"
        )
        with pytest.raises(ConfigError, match=message):
            split([50, 50, 50, 9], 4)

    def test_more_clients_than_the_images_are_enough_for(self) -> None:
        assert len(split([29, 39], 5, alpha=1.0).clients) == 5
        with pytest.raises(ConfigError, match=r"num_clients=6: .* enough for at most 5 clients"):
            split([29, 39], 6, alpha=1.0)

    @pytest.mark.parametrize("alpha", [None, 1.0])
    def test_groups_that_are_all_too_small(self, alpha: float | None) -> None:
        with pytest.raises(ConfigError, match="num_clients=1: the data set has no groups with at"):
            split([9, 9], 1, alpha=alpha)

    def test_data_without_groups(self) -> None:
        without = TrainingPool(np.zeros(100, np.int64), np.zeros(100, np.int64), ("",))
        message = "partition=natural: the data set has no domains; data=folder has domains as"
        with pytest.raises(ConfigError, match=message):
            NaturalPartitioner(10, None).partition(without, 1, numpy_generator(0))


def test_images_of_left_out_groups_belong_to_no_client(tmp_path: Path) -> None:
    places = [f"{name}/{label}" for name in ("ann", "bob", "cat") for label in ("a", "b")]
    making.tree(tmp_path, places, 10)
    for image in (tmp_path / "bob" / "a").iterdir():
        image.unlink()
    words = ["data=folder", f"data.root={tmp_path}", "data.image_size=8", "partition=natural"]
    data = federate(compose_experiment([*words, "num_clients=2"]).local())
    parts = [np.concatenate(client) for client in data.clients.values()]
    names = [data.dataset.domains[data.dataset.domain_of[part[0]]] for part in parts]
    assert names == ["ann", "cat"]
    assert [len(part) for part in parts] == [18, 18]
    assert any(note.startswith("left out: 1 of 3 groups") for note in data.notes)
    assert len(data.dataset.train) == 18 + 9 + 18
