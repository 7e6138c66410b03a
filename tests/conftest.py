"""What the tests share: a small experiment, run in this process in a second or two."""

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import torch
from flwr.app import Message

import task.data.partitions
import task.methods
from client_app.app import app as client_app
from server_app.composition import compose_experiment
from server_app.engines.inprocess_grid import InProcessGrid
from server_app.exchange import Run, request
from server_app.run_record import read_record
from server_app.strategies.base import StrategySettings
from server_app.train import train_experiment
from task.methods.base import Method
from task.registry import component_class

PARTS = Path(__file__).parent / "parts"
SMALL_RESNET = ("model=resnet56", "data.image_size=8")
SMALL = ("engine=inprocess", "rounds=2", "local_epochs=1", "num_clients=4", "partition=iid")

hypothesis.settings.register_profile("thousands", max_examples=2000)
torch.set_num_threads(1)  # as every worker does; two cores share two threads badly

Train = Callable[..., Path]


def model_for(method: str) -> list[str]:
    """Overrides for a small network that a method can train."""
    needs_blocks = any(
        component_class("task.methods", name, Method).residual for name in method.split("+")
    )
    return list(SMALL_RESNET) if needs_blocks else []


def norm_for(strategy: str) -> list[str]:
    """Overrides for a normalisation that a strategy allows."""
    kind = component_class("server_app.strategies", strategy, StrategySettings)
    return ["model.norm=group"] if kind.private else []


def faulty(clients: list[int], rounds: list[int], fault: str) -> list[str]:
    """Overrides that make some clients fail in some rounds (tests/parts/methods/faulty.py)."""
    return [
        "method=fedavg",
        "method.name=faulty",
        f"+method.clients={clients}",
        f"+method.rounds={rounds}",
        f"+method.fault='{fault}'",
    ]


@pytest.fixture(scope="session", autouse=True)
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Decoded images, kept apart from the user's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNIVARFL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Components that only tests use, found like any other."""
    for package, folder in ((task.methods, "methods"), (task.data.partitions, "partitions")):
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(PARTS / folder)])


@pytest.fixture(scope="session")
def flower_identity() -> None:
    """Flower's messages want to know who they are from; a run of ours, or this, tells them."""
    InProcessGrid(client_app, 1)


def asked(clients: list[int]) -> Message:
    """A server's message that has these clients trained, as if it had been sent."""
    message = request("train", 1, Run("run", "{}"), 1, clients)
    message.metadata.__dict__["_message_id"] = "asked"
    return message


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Train:
    """Train the small experiment with overrides; the run's directory."""

    monkeypatch.setenv("UNIVARFL_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("UNIVARFL_MEMORY", str(tmp_path / "memory"))

    def run(*overrides: str) -> Path:
        words = [*SMALL, *overrides]
        return train_experiment(compose_experiment(words), words)

    return run


def only_run(tmp_path: Path) -> Path:
    """The one run directory under a test's `tmp_path`."""
    (directory,) = (tmp_path / "runs").iterdir()
    return directory


def rows(directory: Path, name: str) -> list[dict[str, str]]:
    """A table of a run's record."""
    with (directory / name).open(newline="") as file:
        return list(csv.DictReader(file))


def sha256(directory: Path) -> Any:
    """The final model's hash, from the record."""
    return read_record(directory)["model_sha256"]
