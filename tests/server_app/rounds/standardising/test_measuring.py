"""Standardisation by the rows of all clients: the same constants for every division of the rows."""

import csv
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch

from server_app.config.composition import compose_experiment
from server_app.config.resuming import whole_words
from server_app.rounds.errors import RunFailedError
from server_app.rounds.standardising import measuring
from server_app.runs.records.run_record import read_entries
from task.approval.approvals import name_of
from task.data.column_sums import BITS, MOST_ROWS, SUMS, column_sums, constants_of
from task.data.image_store.store import open_dataset
from task.data.sources.vectors import Vectors
from task.errors import ConfigError, ProtocolError
from task.protocol.columns import NAME, check_sums
from tests.absent_sites import Run
from tests.conftest import sha256
from tests.interruption import ended_in
from tests.task.data import tables
from univarfl.engines.train import train_experiment

SMALL = (
    "engine=inprocess", "local_epochs=1", "watch.tensorboard=false", "method=fedavg", "rounds=1",
)  # fmt: skip
Trained = Callable[..., Path]


@pytest.fixture(scope="module")
def wine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tables.of_sklearn(tmp_path_factory.mktemp("wine"), "wine")


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wine: Path) -> Trained:
    """Return a function that trains on the wines, and returns the run's directory."""
    monkeypatch.setenv("UNIVARFL_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("UNIVARFL_MEMORY", str(tmp_path / "memory"))

    def run(*more: str) -> Path:
        first = (
            [] if more[0].startswith("resume=") else ["data=vectors", f"data.root={wine}", *SMALL]
        )
        words = whole_words([*first, *more])
        return train_experiment(compose_experiment(words), words)

    return run


def measured(run: Path) -> Any:
    return read_entries(run)["config"]["data"]["measured"]


@pytest.mark.parametrize(
    "more",
    [
        ("alpha=0.1", "num_clients=5"),
        ("partition=iid", "num_clients=3", "seed=1"),
        ("num_clients=3", "secure=masked"),
    ],
)
def test_constants_are_those_of_all_rows_in_one_place(
    more: tuple[str, ...], wine: Path, trained: Trained
) -> None:
    source = compose_experiment(["data=vectors", f"data.root={wine}"]).local().source()
    assert isinstance(source, Vectors)
    data = open_dataset(source)
    rows = data.images[data.train][:, 0, 0]
    pooled = constants_of(source.schema_content, column_sums(source.schema_content, rows))
    found = measured(trained(*more))
    assert (found["mean"], found["deviation"]) == pooled
    assert np.allclose(found["mean"], rows.mean(axis=0, dtype=np.float64), rtol=1e-6)
    assert np.allclose(found["deviation"], rows.std(axis=0, dtype=np.float64), rtol=1e-5)


def test_a_resumed_run_keeps_its_constants(trained: Trained) -> None:
    words = ("num_clients=3", "rounds=2", "run_id=whole")
    whole = trained(*words)
    with ended_in(2), pytest.raises(KeyboardInterrupt):
        trained(*words, "run_id=cut")
    cut = whole.parent / "cut"
    first = measured(cut)
    assert sha256(trained(f"resume={cut}")) == sha256(whole)
    assert measured(cut) == first == measured(whole)


@pytest.mark.parametrize("more", [("privacy=example",), ("strategy=dp_fixed",)])
def test_noise_cannot_protect_sums_of_columns(more: tuple[str, ...], wine: Path) -> None:
    with pytest.raises(ConfigError, match=r"standardise=federated: asks for sums without noise"):
        compose_experiment(["data=vectors", f"data.root={wine}", "method=fedavg", *more])


NAMES = ("east", "north", "south")
AT_SITES = (
    "local_epochs=1", "rounds=1", "partition=sites", f"partition.names=[{','.join(NAMES)}]",
    "watch.tensorboard=false", "method=fedavg",
)  # fmt: skip


@pytest.fixture
def run_on_tables(tmp_path: Path, jumping_clock: None) -> Callable[..., Path]:
    """Return a function that trains at sites in this process, each with a table of its own."""
    root = tables.at_sites(tmp_path / "sites", NAMES)
    (tmp_path / "runs").mkdir()
    words = ("data=vectors", f"data.schema={root / 'schema.yaml'}", *AT_SITES)
    return Run(root, tmp_path / "runs", words)


def ages_of(people: int) -> list[int]:
    return [int(str(row["Age"])) for row in tables.people(people) if row["Age"] != ""]


def test_sites_send_sums_if_their_owners_allow_it(run_on_tables: Callable[..., Path]) -> None:
    run = run_on_tables()
    assert read_entries(run)["status"] == "completed"
    ages = ages_of(60)
    assert measured(run)["mean"][0] == pytest.approx(sum(ages) / len(ages), rel=1e-7)


def test_silent_sites_are_left_out(run_on_tables: Callable[..., Path]) -> None:
    run = run_on_tables("federation.quorum=0.5", silent=("south",))
    ages = ages_of(40)
    assert measured(run)["mean"][0] == pytest.approx(sum(ages) / len(ages), rel=1e-7)
    with (run / "events.csv").open() as file:
        (event,) = [row for row in csv.DictReader(file) if "standardisation" in row["event"]]
    assert event["site"] == "south"
    assert "tell-statistics = true in site.toml" in event["event"]
    with pytest.raises(RunFailedError, match=r"no client has sent the sums of its columns"):
        run_on_tables(silent=NAMES)


def test_an_approval_holds_before_and_after_the_constants_are_known(trained: Trained) -> None:
    run = trained("num_clients=3")
    words = read_entries(run)["overrides"]
    before = compose_experiment(words).local()
    after = before.model_copy(update={"data": {**before.data, "measured": measured(run)}})
    assert before.model_dump_json() != after.model_dump_json()
    assert name_of(after.model_dump_json()) == name_of(before.model_dump_json())


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({}, "its only array must be sums"),
        ({NAME: torch.zeros(SUMS, 2)}, "must be int64"),
        ({NAME: torch.zeros(SUMS, 3, dtype=torch.int64)}, "must be int64"),
        ({NAME: torch.ones(SUMS, 2, dtype=torch.int64)}, ""),
        ({NAME: torch.full((SUMS, 2), -1)}, "more numbers than 5 rows"),
    ],
)
def test_sums_of_another_form_are_refused(found: dict[str, torch.Tensor], message: str) -> None:
    if not message:
        assert check_sums(found, 2, 5) is found[NAME]
        return
    with pytest.raises(ProtocolError, match=message):
        check_sums(found, 2, 5)


def test_sums_of_sites_that_tell_huge_counts_do_not_overflow() -> None:
    most = 2**BITS * MOST_ROWS
    huge = torch.tensor([[MOST_ROWS], [most], [most], [0]])
    sizes = SimpleNamespace(train=[10**12] * 3, images=lambda: [10**12] * 3)
    context: Any = SimpleNamespace(sizes=sizes, clients_per_reply=lambda _: 3)
    replies = {client: SimpleNamespace(of=lambda _: {NAME: huge}) for client in range(3)}
    replies[2] = SimpleNamespace(of=lambda _: {NAME: torch.tensor([[1], [2], [0], [4]])})
    with patch.object(measuring, "ask_clients", lambda *_: replies):
        total, missing = measuring.plain_sums(context, [0, 1, 2], 1)
    assert total.tolist() == [[1], [2], [0], [4]]
    assert missing.keys() == {0, 1}
