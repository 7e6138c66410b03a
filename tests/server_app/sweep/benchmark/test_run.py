"""Benchmarks that are run: trials, rows, the page, a method that is added, saved records."""

import tarfile
from pathlib import Path

import pandas as pd
import pytest

from server_app.report.page.render import GLANCE
from server_app.report.readings import LAST
from server_app.sweep.benchmark.plan import Plan, Tuning
from server_app.sweep.benchmark.ranks import average_ranks
from server_app.sweep.benchmark.run import Benchmark, completed_runs, unpack_records
from server_app.sweep.benchmark.tables import (
    COMMANDS,
    COSTS,
    MINUS,
    OWN_VALUES,
    TRIALS,
    TUNED,
    Tables,
)
from task.errors import ConfigError, RunError
from tests.conftest import SMALL

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
    runs = {run.config["optim"]["lr"]: run for run in completed_runs(place)
            if run.config["seed"] == 9}  # fmt: skip
    scores = [runs[lr].series["validation", "accuracy"][1] for lr in (0.0001, 0.02)]
    assert [trial.score for trial in outcome.trials["fedavg"]] == scores
    assert outcome.chosen("fedavg") == f"optim.lr={0.02 if scores[1] > scores[0] else 0.0001}"


def check_tables(place: Path) -> None:
    """The tables have what the records have, and the page has the tables."""
    found = Tables(Benchmark(PLAN, place).outcome())
    tables = found.all()
    assert {GLANCE, OWN_VALUES, MINUS, COSTS, TRIALS, COMMANDS} <= tables.keys()
    assert set(found.standing(TUNED)["method"]) == {"FedAvg", "FedLC"}
    for _, row in found.frame.iterrows():
        assert row[LAST] == row["run"].record["results"]["test"]["accuracy"]
    commands = set(tables[COMMANDS]["command"])
    assert f"univarfl sweep {PLAN.cells['digits']} method=fedlc seed=0" in commands
    page = (place / "report" / "index.html").read_text()
    assert all(text in page for text in ("FedLC", "Tuning", "Nemenyi", "/no/such/directory"))


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
