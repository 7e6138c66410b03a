"""The papers' tables as data: each number is one run's, and each sweep runs the table it names."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import pytest

from server_app.config.choices import SWEEPS, choices, names_in
from server_app.config.composition import compose_experiment
from server_app.config.experiment import Experiment
from server_app.config.tables import Cell
from server_app.runs.records.run_record import read_entries
from tests.conftest import with_slow
from tests.task.data import making
from univarfl.engines.train import train_experiment
from univarfl.records.published import numbers_of, published_numbers, value_at
from univarfl.sweeps.combinations import expand, lines_of
from univarfl.sweeps.paper_tables import published_tables, sweep_of

EXPERIMENTS = choices()["experiment"]

QUICK_SWEEPS = ("fedalign_table1",)
FIGURES = [name for name in names_in(SWEEPS) if "_figure" in name]
TABLES = [name for name in names_in(SWEEPS) if name not in FIGURES]

Make = Callable[[Path, pytest.MonkeyPatch], object]


@cache
def composed(words: frozenset[str]) -> Experiment:
    """Composed once, because each takes a while."""
    return compose_experiment(sorted(words))


def brought(name: str) -> Experiment:
    return composed(frozenset({f"experiment={name}"}))


def run_of(said: Mapping[str, object]) -> Experiment:
    """The run that some settings make, of which tables have many in common.

    It is composed from those alone that change something.
    """
    first = frozenset(f"{key}={said[key]}" for key in ("experiment", "method"))
    config = composed(first).model_dump()
    changes = {
        f"{key}={value}" for key, value in said.items() if str(value_at(config, key)) != str(value)
    }
    return composed(first | changes)


def in_table(title: str, run: Experiment) -> list[Cell]:
    """The numbers of one table that a run stands beside."""
    return [
        cell for name, cell in published_numbers(run.model_dump(), run.published) if name == title
    ]


def title_of(sweep: str) -> str:
    """The table that a sweep is named after."""
    (title,) = {table.name for table in published_tables() if sweep_of(table.name) == sweep}
    return title


def test_every_table_has_its_sweep() -> None:
    tables = {table.name for name in EXPERIMENTS for table in brought(name).published}
    assert sorted(map(sweep_of, tables)) == TABLES


@pytest.mark.parametrize("sweep", with_slow(TABLES, {*TABLES} - {*QUICK_SWEEPS}))
def test_a_sweep_runs_each_cell_of_its_table_with_three_seeds_and_nothing_else(sweep: str) -> None:
    title = title_of(sweep)
    wanted = [
        (name, str(numbers_of(cell)), seed)
        for name in EXPERIMENTS
        for table in brought(name).published
        for cell in table.cells
        for seed in (0, 1, 2)
        if table.name == title
    ]
    found = []
    for line in lines_of([f"{SWEEPS}={sweep}"]):
        for run in expand(line):
            said = dict(word.split("=", 1) for word in run)
            seed = int(said.pop("seed"))
            del said["data.root"]
            (cell,) = in_table(title, run_of(said))
            found.append((said["experiment"], str(numbers_of(cell)), seed))
    assert sorted(found) == sorted(wanted)


@pytest.mark.parametrize("sweep", with_slow(FIGURES, ["feduv_figure3"]))
def test_a_sweep_of_a_figure_makes_runs_that_its_measure_can_use(sweep: str) -> None:
    for line in lines_of([f"{SWEEPS}={sweep}"]):
        for words in expand(line):
            run = composed(frozenset(word for word in words if not word.startswith("seed=")))
            kept = run.watch.models_every
            assert sweep == "feduv_figure1" or (kept and run.rounds % kept == 0)


@pytest.mark.parametrize(("place", "root"), [("/my data", "/my data"), (None, "data")])
def test_the_sweeps_look_for_images_where_they_are_told(
    place: str | None, root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if place is None:
        monkeypatch.delenv("DATA", raising=False)
    else:
        monkeypatch.setenv("DATA", place)
    lines = [line for sweep in names_in(SWEEPS) for line in lines_of([f"{SWEEPS}={sweep}"])]
    (where,) = {word for line in lines for word in line if word.startswith("data.root=")}
    for name in EXPERIMENTS:
        (words,) = expand([f"experiment={name}", where])
        data = compose_experiment(words).data
        assert data["root"] == str(tmp_path / root / data["name"])


SMOKE: dict[str, tuple[Make, list[str]]] = {
    "stl10": (making.stl10, ["method=univarfl", "num_clients=2", "data.image_size=32"]),
    "cifar100": (making.cifar100, ["method=univarfl", "num_clients=2", "data.image_size=16"]),
    "tiny_imagenet": (
        lambda root, _: making.tiny_imagenet(root),
        ["method=feduv", "num_clients=2", "data.image_size=16"],
    ),
    "pacs": (lambda root, _: making.pacs(root), ["method=univarfl", "data.image_size=32"]),
    "ham10000": (lambda root, _: making.ham10000(root), ["method=univarfl", "data.image_size=16"]),
    "office_home": (
        lambda root, _: making.office_home(root),
        ["method=feduv", "data.image_size=16"],
    ),
    "fedalign_cifar10": (
        making.cifar10,
        ["method=fedalign", "num_clients=2", "data.image_size=8"],
    ),
    "fedalign_cifar100": (
        making.cifar100,
        ["method=fedalign", "num_clients=2", "data.image_size=8"],
    ),
    "fedalign_imagenet200": (
        lambda root, _: making.imagenet(root),
        ["method=fedalign", "num_clients=2", "data.image_size=16"],
    ),
    "niid_bench": (lambda root, _: making.mnist(root), ["method=scaffold", "num_clients=2"]),
    "fedvls_mnist": (lambda root, _: making.mnist(root), ["method=fedvls", "num_clients=2"]),
}
SLOW = (  # deep networks, or many test images
    "cifar100", "fedalign_imagenet200", "ham10000", "office_home", "tiny_imagenet",
)  # fmt: skip


def test_every_experiment_is_tried() -> None:
    assert sorted(SMOKE) == EXPERIMENTS


@pytest.mark.parametrize("name", with_slow(SMOKE, SLOW))
def test_an_experiment_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, smaller = SMOKE[name]
    make(tmp_path / "images", monkeypatch)
    monkeypatch.setenv("UNIVARFL_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("UNIVARFL_MEMORY", str(tmp_path / "memory"))
    words = [f"experiment={name}", f"data.root={tmp_path / 'images'}", *smaller]
    words += ["engine=inprocess", "rounds=1", "local_epochs=1", "partition.min_images=3"]
    record = read_entries(train_experiment(compose_experiment(words), words))
    assert record["status"] == "completed"
    assert 0 <= record["results"]["test"]["accuracy"] <= 1
