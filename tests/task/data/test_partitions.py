"""Partitions among clients: disjoint, complete, above the minimum size, and repeatable."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from server_app.config.composition import compose_experiment
from task.data.federated import federate
from task.data.partitions.base import (
    MinimumSizePartitioner,
    Partitioner,
    PartitionResult,
    TrainingPool,
)
from task.data.partitions.dirichlet import DirichletPartitioner, Draw, class_shares
from task.data.partitions.domains import DomainPartitioner
from task.data.partitions.iid import IidPartitioner
from task.data.partitions.pathological import PathologicalPartitioner, deal_classes, draw_classes
from task.data.partitions.power_law import PowerLawPartitioner
from task.data.partitions.sites import SitePartitioner
from task.data.splits.clients import hold_out
from task.errors import ConfigError
from task.seeding import numpy_generator
from tests.conftest import Train
from tests.task.data import making

DOMAINS = ("a", "b", "c", "d")
KINDS: dict[str, Callable[[float], MinimumSizePartitioner]] = {
    "dirichlet": lambda alpha: DirichletPartitioner(10, alpha, balanced=True),
    "plain dirichlet": lambda alpha: DirichletPartitioner(10, alpha, balanced=False),
    "iid": lambda _: IidPartitioner(10),
    "pathological": lambda alpha: PathologicalPartitioner(
        10, classes_per_client=1 + int(alpha * 10) % 10
    ),
    "power law": lambda alpha: PowerLawPartitioner(
        10, classes_per_client=1 + int(alpha * 10) % 10, sigma=min(alpha, 10)
    ),
}


def pool(images: int, skewed: bool = False) -> TrainingPool:
    """Return ten classes and four domains; skewed classes grow by half from one to the next."""
    sizes = 1.5 ** np.arange(10) if skewed else np.ones(10)
    edges = (np.cumsum(sizes) / sizes.sum() * images).round()
    labels = np.searchsorted(edges, np.arange(images), side="right")
    return TrainingPool(labels, np.arange(images) * 7 % 4, DOMAINS)


def assert_complete(result: PartitionResult, images: int, clients: int, least: int) -> None:
    assert len(result.clients) == clients
    assert np.array_equal(np.sort(np.concatenate(result.clients)), np.arange(images))
    assert min(len(part) for part in result.clients) >= least
    assert all(np.array_equal(part, np.sort(part)) for part in result.clients)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None)
@given(
    alpha=st.floats(-3, 3).map(lambda power: 10.0**power),
    clients=st.integers(1, 1000),
    skewed=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
@example(alpha=0.01, clients=100, skewed=False, seed=0)
@example(alpha=1e-3, clients=1000, skewed=True, seed=0)
@example(alpha=1e3, clients=1000, skewed=True, seed=0)
def test_every_partition_is_complete_and_repeatable(
    kind: str, alpha: float, clients: int, skewed: bool, seed: int
) -> None:
    images = pool(10_000, skewed)
    partitioner = KINDS[kind](alpha)
    if (
        isinstance(partitioner, PathologicalPartitioner)
        and partitioner.classes_per_client * clients < 10
    ):
        with pytest.raises(ConfigError, match="cannot hold all 10 classes"):
            partitioner.partition(images, clients, numpy_generator(seed))
        return
    first, again = (partitioner.partition(images, clients, numpy_generator(seed)) for _ in range(2))
    assert_complete(first, 10_000, clients, 10)
    assert all(map(np.array_equal, first.clients, again.clients))


@settings(max_examples=40, deadline=None)
@given(each=st.integers(1, 250), seed=st.integers(0, 2**32 - 1))
def test_domains_are_split_and_never_mixed(each: int, seed: int) -> None:
    images = pool(10_000)
    result = DomainPartitioner(10).partition(images, 4 * each, numpy_generator(seed))
    assert_complete(result, 10_000, 4 * each, 10)
    for client, part in enumerate(result.clients):
        assert set(images.domain_of[part]) == {client // each}
        assert abs(len(part) - 2500 / each) < 1


class TestDirichlet:
    @pytest.mark.parametrize("balanced", [True, False])
    def test_moved_images_are_noted(self, balanced: bool) -> None:
        partitioner = DirichletPartitioner(10, 0.01, balanced)
        note = partitioner.partition(pool(1500), 100, numpy_generator(0)).note
        assert "images moved to clients below 10 after 50 draws" in note
        assert (
            DirichletPartitioner(10, 10, balanced)
            .partition(pool(1500), 10, numpy_generator(0))
            .note
            == ""
        )

    @pytest.mark.parametrize("balanced", [True, False])
    @pytest.mark.parametrize(("alpha", "least", "most"), [(0.01, 1, 3), (1000, 10, 10)])
    def test_alpha_sets_how_many_classes_a_client_sees(
        self, alpha: float, least: int, most: int, balanced: bool
    ) -> None:
        images = pool(1500)
        result = DirichletPartitioner(10, alpha, balanced).partition(images, 10, numpy_generator(0))
        classes = [len(np.unique(images.labels[part])) for part in result.clients]
        assert least <= np.median(classes) <= most

    def test_balanced_sizes_are_closer(self) -> None:
        spread = {
            balanced: np.mean(
                [
                    np.std([len(part) for part in result.clients])
                    for seed in range(5)
                    for result in [
                        DirichletPartitioner(10, 0.3, balanced).partition(
                            pool(5000), 20, numpy_generator(seed)
                        )
                    ]
                ]
            )
            for balanced in (True, False)
        }
        assert spread[True] < 0.7 * spread[False]

    def test_a_client_with_exactly_an_even_share_gets_no_more(self) -> None:
        """Of two classes each goes to one client."""
        classes = [np.arange(100), np.arange(100, 200)]
        partitioner = DirichletPartitioner(10, 1e-6, balanced=True)
        for seed in range(20):
            drawn = partitioner._draw(classes, 2, numpy_generator(seed))
            assert drawn.sizes.tolist() == [100, 100]

    def test_of_draws_that_are_all_too_small_the_best_is_kept(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sizes = iter([np.array([least, 30 - least]) for least in (3, 9, 5)])

        def draw(*_: object) -> Draw:
            counts = next(sizes)
            return Draw([np.arange(30)], [counts], counts)

        monkeypatch.setattr("task.data.partitions.dirichlet.DRAWS", 3)
        monkeypatch.setattr(DirichletPartitioner, "_draw", draw)
        partitioner = DirichletPartitioner(10, 0.1, balanced=True)
        result = partitioner.partition(pool(30), 2, numpy_generator(0))
        assert result.note == "1 images moved to clients below 10 after 3 draws"


class TestPathological:
    @pytest.mark.parametrize(("clients", "each"), [(10, 1), (10, 2), (7, 3), (100, 2), (4, 10)])
    def test_every_client_holds_its_number_of_classes(self, clients: int, each: int) -> None:
        images = pool(5000)
        result = PathologicalPartitioner(10, each).partition(images, clients, numpy_generator(0))
        assert {len(np.unique(images.labels[part])) for part in result.clients} == {each}
        assert result.note == ""

    @given(
        classes=st.integers(1, 30), clients=st.integers(1, 60), seed=st.integers(0, 99),
        share=st.floats(0, 1),
    )  # fmt: skip
    def test_classes_are_dealt_evenly(
        self, classes: int, clients: int, seed: int, share: float
    ) -> None:
        each = max(1, round(share * classes))
        hands = deal_classes(classes, clients, each, numpy_generator(seed))
        assert [len(hand) for hand in hands] == [each] * clients
        held = [sum(card in hand for hand in hands) for card in range(classes)]
        assert max(held) - min(held) <= 1

    @given(clients=st.integers(10, 40), each=st.integers(1, 10), seed=st.integers(0, 99))
    def test_drawn_classes_begin_with_the_clients_number(
        self, clients: int, each: int, seed: int
    ) -> None:
        hands = draw_classes(10, clients, each, numpy_generator(seed))
        assert [len(hand) for hand in hands] == [each] * clients
        assert all(client % 10 in hand <= set(range(10)) for client, hand in enumerate(hands))

    def test_drawn_classes_are_split_evenly_among_their_clients(self) -> None:
        images = pool(5000)
        partitioner = PathologicalPartitioner(10, 3, deal="random")
        result = partitioner.partition(images, 10, numpy_generator(0))
        assert_complete(result, 5000, 10, 10)
        counts = np.array(
            [np.bincount(images.labels[part], minlength=10) for part in result.clients]
        )
        holders = (counts > 0).sum(axis=0)
        assert len(set(holders)) > 1
        assert np.all((counts == 0) | (abs(counts - 500 / holders) < 1))
        with pytest.raises(ConfigError, match="deal=random: needs at least 10 clients"):
            partitioner.partition(images, 9, numpy_generator(0))

    def test_small_clients_are_filled_and_the_note_names_the_cost(self) -> None:
        """The smallest of the skewed classes has 13 images for ten clients."""
        result = PathologicalPartitioner(10, 1).partition(
            pool(1500, skewed=True), 100, numpy_generator(0)
        )
        assert_complete(result, 1500, 100, 10)
        assert "some hold more than classes_per_client classes" in result.note

    def test_too_many_classes_per_client_are_refused(self) -> None:
        with pytest.raises(
            ConfigError, match=r"classes_per_client=11: must be at most 10, the number of classes"
        ):
            PathologicalPartitioner(10, 11).partition(pool(1500), 10, numpy_generator(0))


class TestPowerLaw:
    @settings(max_examples=40, deadline=None)
    @given(
        sigma=st.floats(0, 10), clients=st.integers(10, 500), each=st.integers(1, 10),
        seed=st.integers(0, 99),
    )  # fmt: skip
    def test_every_client_holds_its_classes_and_its_minimum_of_each(
        self, sigma: float, clients: int, each: int, seed: int
    ) -> None:
        images = pool(10_000)
        result = PowerLawPartitioner(10, each, sigma).partition(
            images, clients, numpy_generator(seed)
        )
        assert_complete(result, 10_000, clients, 10)
        assert result.note == ""
        for part in result.clients:
            _, counts = np.unique(images.labels[part], return_counts=True)
            assert len(counts) == each
            assert counts.min() >= min(-(-10 // each), 10_000 // (clients * each + 10))

    def test_sizes_have_fedproxs_spread(self) -> None:
        """The shares' logarithms have standard deviation 2; there are enough images to see it."""
        images = pool(1_000_000)
        result = PowerLawPartitioner(10, 1, 2.0).partition(images, 1000, numpy_generator(0))
        beyond = np.array([len(part) - 10 for part in result.clients])
        logarithms = np.log(beyond[beyond > 0])
        assert len(logarithms) > 980
        assert np.std(logarithms) == pytest.approx(2, rel=0.1)
        assert np.sort(beyond)[-100:].sum() > beyond.sum() / 2

    def test_without_spread_the_sizes_are_even(self) -> None:
        result = PowerLawPartitioner(10, 2, 0.0).partition(pool(10_000), 100, numpy_generator(0))
        sizes = [len(part) for part in result.clients]
        assert max(sizes) - min(sizes) <= 2

    def test_classes_that_no_client_can_hold_are_refused(self) -> None:
        with pytest.raises(ConfigError, match="4 clients with 2 classes each cannot hold all 10"):
            PowerLawPartitioner(10, 2, 2.0).partition(pool(1500), 4, numpy_generator(0))


class TestDomains:
    def test_num_clients_must_be_a_multiple_of_the_domains(self) -> None:
        with pytest.raises(ConfigError, match=r"num_clients=6: must be a multiple of 4, .* a, b"):
            DomainPartitioner(10).partition(pool(1500), 6, numpy_generator(0))

    def test_data_without_domains_are_refused(self) -> None:
        without = TrainingPool(np.zeros(100, np.int64), np.zeros(100, np.int64), ("",))
        with pytest.raises(ConfigError, match="has no domains"):
            DomainPartitioner(10).partition(without, 1, numpy_generator(0))

    def test_a_domain_too_small_for_its_clients_is_refused_by_name(self) -> None:
        uneven = TrainingPool(
            np.zeros(100, np.int64), np.repeat([0, 1], [85, 15]), ("big", "small")
        )
        with pytest.raises(
            ConfigError,
            match="num_clients=4: needs 20 training images of domain small, which has 15",
        ):
            DomainPartitioner(10).partition(uneven, 4, numpy_generator(0))


class TestSites:
    def test_sites_have_no_images_here(self) -> None:
        sites = SitePartitioner(["b", "a"])
        assert sites.sites == ["a", "b"]
        assert [len(part) for part in sites.partition(pool(10), 2, numpy_generator(0)).clients] == [
            0, 0,
        ]  # fmt: skip

    @pytest.mark.parametrize("names", [[], ["a", "a"]])
    def test_sites_must_be_listed_once(self, names: list[str]) -> None:
        with pytest.raises(ConfigError, match="must list each site once"):
            SitePartitioner(names)


def test_iid_sizes_differ_by_at_most_one() -> None:
    result = IidPartitioner(min_images=10).partition(pool(1500), 7, numpy_generator(0))
    assert_complete(result, 1500, 7, 214)


@pytest.mark.parametrize(
    "partitioner",
    [
        IidPartitioner(10),
        DirichletPartitioner(10, 0.3, True),
        PathologicalPartitioner(10, 2),
        PowerLawPartitioner(10, 2, 2.0),
    ],
)
def test_too_many_clients_for_the_images_are_refused(partitioner: Partitioner) -> None:
    with pytest.raises(
        ConfigError, match="num_clients=151: 1500 training images are enough for at most"
    ):
        partitioner.partition(pool(1500), 151, numpy_generator(0))


class TestFederate:
    def test_clients_share_the_training_images_and_hold_out_a_tenth(self) -> None:
        data = federate(compose_experiment([]).local())
        parts = [part for client in data.clients.values() for part in client]
        assert np.array_equal(np.sort(np.concatenate(parts)), data.dataset.train)
        for client in data.clients.values():
            size = len(client.train) + len(client.validation)
            assert len(client.validation) == int(size / 10 + 0.5)

    @pytest.mark.parametrize(
        ("images", "validation"),
        [(0, 0), (1, 0), (2, 1), (14, 1), (15, 2), (16, 2), (25, 3), (100, 10)],
    )
    def test_small_clients(self, images: int, validation: int) -> None:
        split = hold_out(np.arange(images), seed=0, client=0, share=0.1)
        assert len(split.validation) == validation
        both = np.sort(np.concatenate([split.train, split.validation]))
        assert np.array_equal(both, np.arange(images))

    @pytest.mark.parametrize(
        ("images", "validation"), [(1, 0), (2, 1), (3, 1), (4, 2), (5, 3), (7, 4), (100, 50)]
    )
    def test_two_images_are_left_to_train_on(self, images: int, validation: int) -> None:
        split = hold_out(np.arange(images), seed=0, client=0, share=0.5)
        assert len(split.validation) == validation

    def test_all_images_train_without_validation(self) -> None:
        words = ["data.validation_share=0"]
        data = federate(compose_experiment(words).local())
        parts = [client.train for client in data.clients.values()]
        assert np.array_equal(np.sort(np.concatenate(parts)), data.dataset.train)
        assert not any(len(client.validation) for client in data.clients.values())

    def test_classes_in_only_one_of_training_and_test_set_are_noted(self, tmp_path: Path) -> None:
        making.tree(tmp_path, ["train/dog", "train/horse", "test/dog", "test/house"], 10)
        words = ["data=folder", f"data.root={tmp_path}", "num_clients=2", "partition=iid"]
        assert federate(compose_experiment(words).local()).notes == (
            "classes without training images: house",
            "classes without test images: horse",
        )

    def test_the_test_set_does_not_follow_the_experiments_seed(self) -> None:
        first, second = (federate(compose_experiment([f"seed={s}"]).local()) for s in (0, 1))
        assert np.array_equal(first.dataset.test, second.dataset.test)
        assert not np.array_equal(first.clients[0].train, second.clients[0].train)


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of clients of each IID partition that is computed."""
    monkeypatch.setattr("task.data.federated._latest_split", {})
    calls: list[int] = []
    plain = IidPartitioner.partition

    def partition(
        self: IidPartitioner, pool: TrainingPool, num_clients: int, generator: np.random.Generator
    ) -> PartitionResult:
        calls.append(num_clients)
        return plain(self, pool, num_clients, generator)

    monkeypatch.setattr(IidPartitioner, "partition", partition)
    return calls


class TestSplitOnce:
    def test_a_run_in_one_process_partitions_once(self, train: Train, computed: list[int]) -> None:
        """The check before the run, the server's worker and the clients' workers all need it."""
        train("rounds=1", "num_clients=3", "federation.workers=2")
        assert computed == [3]

    @pytest.mark.parametrize("word", ["seed=1", "num_clients=5", "partition.min_images=11"])
    def test_another_setting_is_another_split(self, computed: list[int], word: str) -> None:
        federate(compose_experiment(["partition=iid"]).local())
        federate(compose_experiment(["partition=iid", word]).local())
        assert len(computed) == 2

    def test_another_cache_can_have_other_images(
        self,
        computed: list[int],
        cache_of_all_digits: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        config = compose_experiment(["partition=iid"]).local()
        few = federate(config)
        monkeypatch.setenv("UNIVARFL_CACHE", str(cache_of_all_digits))
        everything = federate(config)
        assert len(few.dataset.train) < len(everything.dataset.train)
        parts = [part for client in everything.clients.values() for part in client]
        assert np.array_equal(np.sort(np.concatenate(parts)), everything.dataset.train)
        assert len(computed) == 2

    def test_changed_files_are_partitioned_again(self, tmp_path: Path, computed: list[int]) -> None:
        making.tree(tmp_path, ["cat", "dog"], 20)
        words = ["data=folder", f"data.root={tmp_path}", "num_clients=2", "partition=iid"]
        config = compose_experiment(words).local()
        for images in (40, 40, 41):
            if images == 41:
                making.save(tmp_path / "cat" / "one_more.png", 99)
            data = federate(config)
            parts = [part for client in data.clients.values() for part in client]
            assert sum(map(len, parts)) == len(data.dataset.train)
            assert len(data.dataset.images) == images
        assert len(computed) == 2


@given(seed=st.integers(0, 2**32))
def test_at_tiny_alpha_a_class_goes_to_one_of_the_clients_that_may_grow(seed: int) -> None:
    """The draw gives all to one client, which may be full: the others then share nothing."""
    may_grow = np.array([True, False, False, True, False])
    shares = class_shares(1e-4, may_grow, np.random.default_rng(seed))
    assert shares.sum() == pytest.approx(1)
    assert (shares[~may_grow] == 0).all()
