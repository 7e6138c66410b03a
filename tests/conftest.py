"""Fixtures and helpers that tests share; most train a small experiment in this process."""

import csv
import dataclasses
import fcntl
import gc
import logging
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import torch

import server_app.app
import task.data.partitions
import task.methods
from client_app.app import app as client_app
from client_app.client_state import ClientState, StateLostError
from server_app.config.choices import choices
from server_app.config.composition import compose_experiment
from server_app.runs.records.run_record import read_entries
from task.data.image_store.store import open_dataset
from task.data.sources.base import DatasetIndex
from task.data.sources.digits import Digits
from task.registry import component_class
from task.training.device import return_freed_memory
from tests.absent_sites import Run, make_images
from tests.chaos.trial import NEEDED
from tests.extension_package import hospital_package, installed  # noqa: F401  (fixtures)
from univarfl.engines import inprocess
from univarfl.engines.early import WORKER_MODULES
from univarfl.engines.local.inprocess_grid import InProcessGrid
from univarfl.engines.local.processes import warm_up
from univarfl.engines.train import train_experiment

FEW_DIGITS, FEW_TO_TRAIN, FEW_TO_TEST = 450, 362, 88  # of 1,797, 1,437 and 360
DIGITS_SIZES = (8, 16, 32)  # pixels; the sizes that tests train on
index_of_all_digits = Digits.dataset_index
PARTS = Path(__file__).parent / "parts"
LENET = ("model=lenet", "data.image_size=16")
SMALL_RESNET = ("model=resnet56", "data.image_size=8")
LEARNS = "optim.lr=0.1"  # within two rounds; a run that another one is compared with needs it, too
# A run of these words takes 0.3 s of CPU beside its composition; one of CNN's takes 1 s.
SMALL = (
    "engine=inprocess", "rounds=2", "local_epochs=1", "num_clients=4", "partition=iid",
    *LENET, LEARNS, "watch.tensorboard=false",
)  # fmt: skip
CNN = ("model=cnn", "data.image_size=32")  # has batch norm
SMALL_CNN = (*SMALL, *CNN)

# The same cases on every machine, and no limit on their time.
hypothesis.settings.register_profile("quick", max_examples=50, deadline=None, derandomize=True)
hypothesis.settings.register_profile("thousands", max_examples=2000, deadline=None)
hypothesis.settings.load_profile("quick")
torch.set_num_threads(1)  # like every worker; more threads than cores are slow

Train = Callable[..., Path]


def pytest_configure() -> None:
    """Let the processes that tests start receive SIGINT; a shell's background job ignores it."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Exempt imported modules from garbage collection, which Flower runs for many messages."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Undo the exemption, so that the modules are freed and Triton reports no leaks."""
    gc.unfreeze()


def with_slow(values: Iterable[object], slow: Container[object]) -> list[Any]:
    """Return values as parameters of a test, some of them marked as slow."""
    return [pytest.param(one, marks=pytest.mark.slow) if one in slow else one for one in values]


def training_methods() -> list[str]:
    """Return the names of the methods that train; others solve the classifier in closed form."""
    names = choices()["method"]
    return [name for name in names if not component_class("method", name).closed_form]


def model_for(method: str) -> list[str]:
    """Return overrides for a small network, and for epochs or rounds, that a method can run."""
    names = method.split("+")
    has_batch_norm = CNN if "fedbn" in names else ()
    needs_blocks = any(component_class("method", name).residual for name in names)
    epochs = ["local_epochs=2"] if "fedrep" in names else []
    rounds = [] if {*names} <= {*training_methods()} else ["rounds=1"]
    return [*(SMALL_RESNET if needs_blocks else has_batch_norm), *epochs, *rounds]


def norm_for(strategy: str) -> list[str]:
    """Return overrides for a normalisation that a strategy allows."""
    kind = component_class("strategy", strategy)
    return ["model.norm=group"] if kind.private else []


def needs_of(strategy: str) -> list[str]:
    """Return overrides that a strategy needs."""
    kind = component_class("strategy", strategy)
    waits = ["clock=virtual", "strategy.buffer_size=2"] if kind.buffered else []
    return [*norm_for(strategy), *waits]


def faulty(clients: list[int], rounds: list[int], fault: str) -> list[str]:
    """Return overrides that make some clients fail in some rounds (parts/methods/faulty.py)."""
    return [
        "method=fedavg",
        "method.name=faulty",
        f"+method.clients={clients}",
        f"+method.rounds={rounds}",
        f"+method.fault='{fault}'",
    ]


def lose_state(patch: pytest.MonkeyPatch) -> None:
    """Make the state that client 1 kept in round 1 unreadable."""
    load = ClientState.load

    def lose(self: ClientState, client: int, server_round: int) -> object:
        if client == 1 and server_round == 1:
            raise StateLostError("the disk is gone")
        return load(self, client, server_round)

    patch.setattr(ClientState, "load", lose)


def shared_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory that all of pytest's worker processes share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return a copy of a directory that one of pytest's worker processes makes for all of them.

    Args:
        factory: the fixture `tmp_path_factory`.
        name: what the directory is called.
        make: fills the directory, which it is given.
    """
    place = shared_place(factory) / name
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.with_suffix(".made").exists():
            make(place)
            place.with_suffix(".made").touch()
    return shutil.copytree(place, factory.mktemp(name) / name)


def index_of_few_digits(digits: Digits) -> DatasetIndex:
    """Return the index of the first `FEW_DIGITS` digits."""
    index = index_of_all_digits(digits)
    return dataclasses.replace(
        index,
        labels=index.labels[:FEW_DIGITS],
        test=index.test[:FEW_DIGITS],
        domain_of=index.domain_of[:FEW_DIGITS],
    )


@pytest.fixture(scope="session", autouse=True)
def image_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep decoded images in a cache of the tests; its digits are few, so that runs are short."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNIVARFL_CACHE", str(shared_place(tmp_path_factory) / "cache"))
        with pytest.MonkeyPatch.context() as few:
            few.setattr(Digits, "dataset_index", index_of_few_digits)
            for size in DIGITS_SIZES:
                open_dataset(Digits(image_size=size))
        yield


@pytest.fixture(scope="session")
def fork_server(image_cache: None) -> None:
    """Start the server whose forks are processes of runs; it imports what they need only once."""
    del image_cache  # the forks have its environment
    warm_up("univarfl.sweeps.job", *WORKER_MODULES, *NEEDED)


@pytest.fixture(scope="session")
def cache_of_all_digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an image cache with all 1,797 digits."""
    return shared_place(tmp_path_factory) / "cache_of_all_digits"


@pytest.fixture
def all_digits(cache_of_all_digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use all digits in this test."""
    monkeypatch.setenv("UNIVARFL_CACHE", str(cache_of_all_digits))


@pytest.fixture(scope="module", autouse=True)
def free_memory() -> Iterator[None]:
    """Return the memory that a module's tests have freed: with 8 GB, two workers must fit."""
    yield
    return_freed_memory()


@pytest.fixture(autouse=True)
def client_logger() -> Iterator[None]:
    """Restore the clients' logger, which a site in this process gives a log of its own."""
    logger = logging.getLogger("univarfl.client")
    before = logger.handlers[:], logger.level, logger.propagate
    yield
    logger.handlers[:], logger.level, logger.propagate = before


@pytest.fixture(autouse=True)
def workers_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run all workers in the test's process, so that they see what the test changes."""

    def grid_of(workers: int, _: str) -> InProcessGrid:
        return InProcessGrid(vars(inprocess)["client_app"], workers)

    monkeypatch.setattr(inprocess, "grid_of", grid_of)


@pytest.fixture
def curves() -> None:
    """Draw the curves of a run that this test trains; see `no_curves`."""


@pytest.fixture(autouse=True)
def no_curves(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the picture of each run, a third of a small run's time."""
    if "curves" not in request.fixturenames:
        monkeypatch.setattr(server_app.app, "draw_curves", lambda _: None)


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the components in tests/parts available."""
    for package, folder in ((task.methods, "methods"), (task.data.partitions, "partitions")):
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(PARTS / folder)])


@pytest.fixture(scope="session")
def images_of_sites(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory with the images of the sites of `run_at_sites`."""
    return make_images(tmp_path_factory.mktemp("sites"))


@pytest.fixture
def jumping_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the test's thread wait in no time: its sleep moves the clock ahead."""
    read, pause, thread = time.monotonic, time.sleep, threading.get_ident()
    ahead = 0.0

    def sleep(seconds: float) -> None:
        nonlocal ahead
        if threading.get_ident() == thread:
            ahead += seconds
        else:
            pause(seconds)

    monkeypatch.setattr(time, "monotonic", lambda: read() + ahead)
    monkeypatch.setattr(time, "sleep", sleep)


@pytest.fixture
def run_at_sites(images_of_sites: Path, tmp_path: Path, jumping_clock: None) -> Run:
    """Return a function that trains at sites in this process, some of them away or slow."""
    (tmp_path / "runs").mkdir()
    return Run(images_of_sites, tmp_path / "runs")


@pytest.fixture(scope="session")
def flower_identity() -> None:
    """Set the identity that Flower needs to create a message outside a run."""
    InProcessGrid(client_app, 1)


@pytest.fixture
def train_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], Path]:
    """Return a function that trains by overrides and returns the run's directory."""
    monkeypatch.setenv("UNIVARFL_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("UNIVARFL_MEMORY", str(tmp_path / "memory"))
    return lambda words: train_experiment(compose_experiment(words), words)


@pytest.fixture
def train(train_by: Callable[[list[str]], Path]) -> Train:
    """Return a function that trains the small experiment and returns the run's directory."""
    return lambda *overrides: train_by([*SMALL, *overrides])


@pytest.fixture(scope="session")
def kept_runs() -> dict[tuple[str, ...], Path]:
    """Return the runs of `train_once` by their overrides."""
    return {}


@pytest.fixture
def train_once(
    train: Train,
    kept_runs: dict[tuple[str, ...], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Train:
    """Return a function like `train`, which trains an experiment once for all tests.

    Tests only read its runs.
    """

    def run(*overrides: str) -> Path:
        if overrides not in kept_runs:
            place = tmp_path_factory.mktemp("kept_run")
            kept_runs[overrides] = train(*overrides, f"output_dir={place}")
        return kept_runs[overrides]

    return run


def only_run(tmp_path: Path) -> Path:
    """Return the only run directory under a test's `tmp_path`."""
    (directory,) = (tmp_path / "runs").iterdir()
    return directory


def rows(directory: Path, name: str) -> list[dict[str, str]]:
    """Return the rows of one table of a run's record."""
    with (directory / name).open(newline="") as file:
        return list(csv.DictReader(file))


def sha256(directory: Path) -> Any:
    """Return the SHA-256 of the final model, from the record."""
    return read_entries(directory)["model_sha256"]
