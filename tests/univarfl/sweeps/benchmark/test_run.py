"""Benchmarks that are run: trials, rows, the page, a method that is added, saved records."""

import math
import shlex
import tarfile
from pathlib import Path

import pandas as pd
import pytest
import yaml

from server_app.config.composition import compose_experiment
from task.errors import ConfigError, RunError
from tests.conftest import SMALL
from tests.univarfl.cli.test_cli import run as univarfl
from univarfl.engines.train import train_experiment
from univarfl.report.readings import LAST
from univarfl.report.section import filled_tables
from univarfl.report.summary import GLANCE
from univarfl.sweeps.benchmark.commands import TUNED
from univarfl.sweeps.benchmark.outcome import BenchmarkRuns, hash_of
from univarfl.sweeps.benchmark.plan import Plan, Tuning, trials
from univarfl.sweeps.benchmark.ranks import average_ranks
from univarfl.sweeps.benchmark.run import Benchmark, records_in, unpack_records
from univarfl.sweeps.benchmark.tables import (
    COMMANDS,
    COSTS,
    MINUS,
    OWN_VALUES,
    TRIALS,
    Tables,
)

pytestmark = pytest.mark.usefixtures("fork_server")

PLAN = Plan(
    seeds=[0],
    tuning=Tuning(cell="digits", seeds=[9]),
    cells={
        "digits": " ".join([*SMALL[1:], "rounds=1"]),
        "elsewhere": "data=mnist data.root=/no/such/directory",
    },
    methods={"fedavg": "optim.lr=0.0001,0.02"},
)
LC = ("method=fedlc", "method.calibration_weight=0.1,0.2")


def run(place: Path, *words: str) -> set[str]:
    """Run what the data allow; return the names of the new runs."""
    before = {path.name for path in place.glob("*digits*")}
    with pytest.raises(RunError, match="/no/such/directory: must be a directory"):
        Benchmark(PLAN, place, words, jobs=2).run()
    return {path.name for path in place.glob("*digits*")} - before


@pytest.mark.slow
def test_a_benchmark_is_run_continued_and_extended(tmp_path: Path) -> None:
    first = run(tmp_path)
    assert len(first) == 4  # two trials, the chosen value, and the method's own
    check_choice(tmp_path)
    assert run(tmp_path) == set()
    assert len(run(tmp_path, *LC)) == 4
    assert run(tmp_path, *LC) == set()
    again = Benchmark(PLAN, tmp_path)
    assert {entry.cell for entry in again.missing()} == {"elsewhere"}
    check_tables(tmp_path)


def check_choice(place: Path) -> None:
    """The value with the best validation accuracy is chosen, the first of equals."""
    outcome = Benchmark(PLAN, place).outcome()
    runs = {run.config["optim"]["lr"]: run for run in records_in(place).runs
            if run.config["seed"] == 9}  # fmt: skip
    scores = [runs[lr].series["validation", "accuracy"][1] for lr in (0.0001, 0.02)]
    assert [trial.score for trial in outcome.trials["fedavg"]] == scores
    assert outcome.chosen("fedavg") == f"optim.lr={0.02 if scores[1] > scores[0] else 0.0001}"


def check_tables(place: Path) -> None:
    """The tables have what the records have, and the page has the tables."""
    found = Tables(Benchmark(PLAN, place).outcome())
    tables = filled_tables(found.sections())
    assert {GLANCE, OWN_VALUES, MINUS, COSTS, TRIALS, COMMANDS} <= tables.keys()
    assert set(found.standing(TUNED)["method"]) == {"FedAvg", "FedLC"}
    for _, row in found.frame.iterrows():
        assert row[LAST] == row["run"].record.results.test["accuracy"]
    commands = set(tables[COMMANDS]["command"])
    assert f"univarfl sweep {PLAN.cells['digits']} method=fedlc seed=0" in commands
    page = (place / "report" / "index.html").read_text()
    assert all(text in page for text in ("FedLC", "Tuning", "Nemenyi", "/no/such/directory"))


@pytest.mark.slow
def test_a_value_with_which_training_diverges_is_the_worst(tmp_path: Path) -> None:
    plan = PLAN.model_copy(
        update={
            "cells": {"digits": PLAN.cells["digits"]},
            "methods": {"fedavg": "optim.lr=1e30,0.02"},
        }
    )
    Benchmark(plan, tmp_path, jobs=2).run()
    runs = sorted(tmp_path.glob("*digits*"))
    outcome = Benchmark(plan, tmp_path).outcome()
    diverged, other = outcome.trials["fedavg"]
    assert (diverged.score, diverged.chosen) == (-math.inf, False)
    assert other.chosen
    assert Benchmark(plan, tmp_path).missing() == []
    assert "1e+30: diverged" in Tables(outcome).trials().to_string()
    Benchmark(plan, tmp_path).run()
    assert sorted(tmp_path.glob("*digits*")) == runs


def test_if_every_value_diverges_none_is_chosen(tmp_path: Path) -> None:
    plan = PLAN.model_copy(update={"methods": {"fedavg": "optim.lr=1e30,2e30"}})
    hashes = [hash_of(entry) for entry in trials(plan, "fedavg")]
    outcome = BenchmarkRuns(plan, [], [each for each in hashes if each])
    assert outcome.missing(trials(plan, "fedavg")) == []
    assert outcome.chosen("fedavg") is None


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    """Return the file of a plan without data."""
    path = tmp_path / "plan.yaml"
    path.write_text(yaml.safe_dump(PLAN.model_dump()))
    return path


def test_write_says_what_is_missing(
    tmp_path: Path,
    plan_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["bench", "--plan", str(plan_file), "--to", str(tmp_path / "runs"), "--write"]
    assert univarfl(monkeypatch, *words) == 1
    expected = "4 runs are missing, and those with values that tuning has yet to choose"
    assert expected in capsys.readouterr().err


def test_a_dry_run_counts_saved_records_and_writes_nothing(
    tmp_path: Path,
    plan_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = [*shlex.split(PLAN.cells["digits"]), "method=fedavg", "seed=0", "engine=inprocess"]
    words += ["watch.tensorboard=false", f"output_dir={tmp_path / 'made'}"]
    made = train_experiment(compose_experiment(words), words)
    archive, place = tmp_path / "bench.tar.xz", tmp_path / "runs"
    with tarfile.open(archive, "w:xz") as tar:
        tar.add(made, made.name)
    command = ["bench", "--plan", str(plan_file), "--to", str(place), "--dry-run"]
    assert univarfl(monkeypatch, *command) == 0
    assert "4 runs are missing" in capsys.readouterr().out
    assert univarfl(monkeypatch, *command, "--records", str(archive)) == 0
    assert "3 runs are missing" in capsys.readouterr().out
    assert not place.exists()


@pytest.mark.parametrize("content", [b"a.png\n", b"", b"\x1f\x8b damaged"])
def test_what_is_no_archive_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    archive = tmp_path / "list.txt"
    archive.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        unpack_records(archive, tmp_path / "runs")
    assert str(caught.value) == f"--records={archive}: is not a whole tar archive of records"


def test_saved_records_are_added_and_a_record_that_is_there_is_kept(tmp_path: Path) -> None:
    archive, place, name = tmp_path / "bench.tar.xz", tmp_path / "runs", "20260101-000000-a"
    saved, kept = tmp_path / "saved" / name, place / name
    for directory in (saved, kept):
        directory.mkdir(parents=True)
    other = tmp_path / "saved" / "20260101-000000-b"
    other.mkdir()
    for directory, text in ((saved, "new"), (other, "new"), (kept, "own")):
        (directory / "run.json").write_text(text)
    with tarfile.open(archive, "w:xz") as tar:
        for directory in (saved, other):
            tar.add(directory, directory.name)
    unpack_records(archive, place)
    assert (kept / "run.json").read_text() == "own"
    assert (place / other.name / "run.json").read_text() == "new"
    whole = archive.read_bytes()
    for content in (b"no archive", whole[: len(whole) // 2]):
        archive.write_bytes(content)
        with pytest.raises(ConfigError, match="--records"):
            unpack_records(archive, place)
    assert {path.name for path in place.iterdir()} == {kept.name, other.name}


def test_a_damaged_list_of_added_methods_is_named(tmp_path: Path) -> None:
    (tmp_path / "methods.json").write_text("[1")
    with pytest.raises(ConfigError, match="is damaged; delete it"):
        Benchmark(PLAN, tmp_path)


def test_ranks_are_means_and_equal_scores_share_theirs() -> None:
    scores = pd.DataFrame({"a": [0.9, 0.5], "b": [0.9, 0.7], "c": [0.1, 0.6]})
    assert average_ranks(scores).to_dict() == {"a": 2.25, "b": 1.25, "c": 2.5}
    assert len(average_ranks(scores[:0])) == 0
