"""Divisions among clients: disjoint, whole, above the minimum, repeatable, and always found."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from server_app.composition import compose_experiment
from task.data.federated import federate, hold_out
from task.data.partitions.base import Divided, Division, Partition, Pool
from task.data.partitions.dirichlet import Dirichlet, open_shares
from task.data.partitions.domains import Domains
from task.data.partitions.iid import Iid
from task.data.partitions.pathological import Pathological, deal
from task.data.partitions.sites import Sites
from task.errors import ConfigError
from task.seeding import numpy_generator
from tests.task.data import making

DOMAINS = ("a", "b", "c", "d")
KINDS: dict[str, Callable[[float], Divided]] = {
    "dirichlet": lambda alpha: Dirichlet(10, alpha, balanced=True),
    "plain dirichlet": lambda alpha: Dirichlet(10, alpha, balanced=False),
    "iid": lambda _: Iid(10),
    "pathological": lambda alpha: Pathological(10, classes_per_client=1 + int(alpha * 10) % 10),
}


def pool(images: int, skewed: bool = False) -> Pool:
    """Ten classes, of equal size or each half as large again as the one before; four domains."""
    sizes = 1.5 ** np.arange(10) if skewed else np.ones(10)
    edges = (np.cumsum(sizes) / sizes.sum() * images).round()
    labels = np.searchsorted(edges, np.arange(images), side="right")
    return Pool(labels, np.arange(images) * 7 % 4, DOMAINS)


def assert_divides(division: Division, images: int, clients: int, least: int) -> None:
    assert len(division.clients) == clients
    assert np.array_equal(np.sort(np.concatenate(division.clients)), np.arange(images))
    assert min(len(part) for part in division.clients) >= least
    assert all(np.array_equal(part, np.sort(part)) for part in division.clients)


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
def test_every_division_is_whole_and_repeatable_and_always_ends(
    kind: str, alpha: float, clients: int, skewed: bool, seed: int
) -> None:
    images = pool(10_000, skewed)
    partition = KINDS[kind](alpha)
    if isinstance(partition, Pathological) and partition.classes_per_client * clients < 10:
        with pytest.raises(ConfigError, match="leave some of the 10 classes to nobody"):
            partition.divide(images, clients, numpy_generator(seed))
        return
    first, again = (partition.divide(images, clients, numpy_generator(seed)) for _ in range(2))
    assert_divides(first, 10_000, clients, 10)
    assert all(map(np.array_equal, first.clients, again.clients))


@settings(max_examples=40, deadline=None)
@given(each=st.integers(1, 250), seed=st.integers(0, 2**32 - 1))
def test_domains_are_cut_and_never_mixed(each: int, seed: int) -> None:
    images = pool(10_000)
    division = Domains(10).divide(images, 4 * each, numpy_generator(seed))
    assert_divides(division, 10_000, 4 * each, 10)
    for client, part in enumerate(division.clients):
        assert set(images.domain_of[part]) == {client // each}
        assert abs(len(part) - 2500 / each) < 1


class TestDirichlet:
    @pytest.mark.parametrize("balanced", [True, False])
    def test_a_repair_is_reported(self, balanced: bool) -> None:
        partition = Dirichlet(10, 0.01, balanced)
        note = partition.divide(pool(1500), 100, numpy_generator(0)).note
        assert "images moved to clients below 10 after 50 draws" in note
        assert Dirichlet(10, 10, balanced).divide(pool(1500), 10, numpy_generator(0)).note == ""

    @pytest.mark.parametrize("balanced", [True, False])
    @pytest.mark.parametrize(("alpha", "least", "most"), [(0.01, 1, 3), (1000, 10, 10)])
    def test_alpha_sets_how_many_classes_a_client_sees(
        self, alpha: float, least: int, most: int, balanced: bool
    ) -> None:
        images = pool(1500)
        division = Dirichlet(10, alpha, balanced).divide(images, 10, numpy_generator(0))
        classes = [len(np.unique(images.labels[part])) for part in division.clients]
        assert least <= np.median(classes) <= most

    def test_balance_keeps_sizes_closer(self) -> None:
        spread = {
            balanced: np.mean(
                [
                    np.std([len(part) for part in division.clients])
                    for seed in range(5)
                    for division in [
                        Dirichlet(10, 0.3, balanced).divide(pool(5000), 20, numpy_generator(seed))
                    ]
                ]
            )
            for balanced in (True, False)
        }
        assert spread[True] < 0.7 * spread[False]


class TestPathological:
    @pytest.mark.parametrize(("clients", "each"), [(10, 1), (10, 2), (7, 3), (100, 2), (4, 10)])
    def test_every_client_holds_its_number_of_classes(self, clients: int, each: int) -> None:
        images = pool(5000)
        division = Pathological(10, each).divide(images, clients, numpy_generator(0))
        assert {len(np.unique(images.labels[part])) for part in division.clients} == {each}
        assert division.note == ""

    @given(
        classes=st.integers(1, 30), clients=st.integers(1, 60), seed=st.integers(0, 99),
        share=st.floats(0, 1),
    )  # fmt: skip
    def test_classes_are_dealt_evenly(
        self, classes: int, clients: int, seed: int, share: float
    ) -> None:
        each = max(1, round(share * classes))
        hands = deal(classes, clients, each, numpy_generator(seed))
        assert [len(hand) for hand in hands] == [each] * clients
        held = [sum(card in hand for hand in hands) for card in range(classes)]
        assert max(held) - min(held) <= 1

    def test_small_clients_are_filled_up_and_the_note_says_what_that_costs(self) -> None:
        """The smallest of the skewed classes has 13 images, which ten clients are to share."""
        division = Pathological(10, 1).divide(pool(1500, skewed=True), 100, numpy_generator(0))
        assert_divides(division, 1500, 100, 10)
        assert "some hold more classes than they should" in division.note

    def test_more_classes_than_there_are_is_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"classes_per_client=11: the data set has 10"):
            Pathological(10, 11).divide(pool(1500), 10, numpy_generator(0))


class TestDomains:
    def test_clients_that_do_not_fit_the_domains_are_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"num_clients=6: must be a multiple of 4, .* a, b"):
            Domains(10).divide(pool(1500), 6, numpy_generator(0))

    def test_data_without_domains_are_refused(self) -> None:
        without = Pool(np.zeros(100, np.int64), np.zeros(100, np.int64), ("",))
        with pytest.raises(ConfigError, match="has no domains"):
            Domains(10).divide(without, 1, numpy_generator(0))

    def test_a_domain_too_small_for_its_clients_is_refused_by_name(self) -> None:
        uneven = Pool(np.zeros(100, np.int64), np.repeat([0, 1], [85, 15]), ("big", "small"))
        with pytest.raises(ConfigError, match="num_clients=4: domain small has 15 training"):
            Domains(10).divide(uneven, 4, numpy_generator(0))


class TestSites:
    def test_nothing_is_divided_for_sites(self) -> None:
        sites = Sites(["b", "a"])
        assert sites.sites == ["a", "b"]
        assert [len(part) for part in sites.divide(pool(10), 2, numpy_generator(0)).clients] == [
            0, 0,
        ]  # fmt: skip

    @pytest.mark.parametrize("names", [[], ["a", "a"]])
    def test_names_must_be_given_once(self, names: list[str]) -> None:
        with pytest.raises(ConfigError, match="must list the sites, each once"):
            Sites(names)


def test_iid_deals_everything_out_evenly() -> None:
    division = Iid(min_images=10).divide(pool(1500), 7, numpy_generator(0))
    assert_divides(division, 1500, 7, 214)


@pytest.mark.parametrize("partition", [Iid(10), Dirichlet(10, 0.3, True), Pathological(10, 2)])
def test_more_clients_than_the_images_can_serve_are_refused(partition: Partition) -> None:
    with pytest.raises(ConfigError, match="num_clients=151: 1500 training images serve at most"):
        partition.divide(pool(1500), 151, numpy_generator(0))


class TestFederate:
    def test_clients_share_the_training_images_and_hold_a_tenth_out(self) -> None:
        data = federate(compose_experiment([]).local())
        parts = [part for client in data.clients.values() for part in client]
        assert np.array_equal(np.sort(np.concatenate(parts)), data.dataset.train)
        for client in data.clients.values():
            size = len(client.train) + len(client.validation)
            assert len(client.validation) == int(size / 10 + 0.5)

    @pytest.mark.parametrize(
        ("images", "validation"), [(0, 0), (1, 0), (2, 1), (14, 1), (15, 2), (100, 10)]
    )
    def test_small_clients(self, images: int, validation: int) -> None:
        split = hold_out(np.arange(images), seed=0, client=0)
        assert len(split.validation) == validation
        both = np.sort(np.concatenate([split.train, split.validation]))
        assert np.array_equal(both, np.arange(images))

    def test_classes_on_one_side_alone_are_noted(self, tmp_path: Path) -> None:
        making.tree(tmp_path, ["train/dog", "train/horse", "test/dog", "test/house"], 10)
        words = ["data=folder", f"data.root={tmp_path}", "num_clients=2", "partition=iid"]
        assert federate(compose_experiment(words).local()).notes == (
            "tested and never trained on: house",
            "without an image in the test set: horse",
        )

    def test_the_test_set_does_not_follow_the_experiments_seed(self) -> None:
        first, second = (federate(compose_experiment([f"seed={s}"]).local()) for s in (0, 1))
        assert np.array_equal(first.dataset.test, second.dataset.test)
        assert not np.array_equal(first.clients[0].train, second.clients[0].train)


@given(seed=st.integers(0, 2**32))
def test_at_tiny_alpha_a_class_goes_to_one_of_those_who_take_more(seed: int) -> None:
    """The draw gives all to one client, who may be full: the open ones then share nothing."""
    takes_more = np.array([True, False, False, True, False])
    shares = open_shares(1e-4, takes_more, np.random.default_rng(seed))
    assert shares.sum() == pytest.approx(1)
    assert (shares[~takes_more] == 0).all()
