"""What the tables make of runs that are missing, diverged, damaged, or of other images."""

import math
import shutil
from pathlib import Path

import pytest

from server_app.runs.records.older import ALL_IMAGES
from task.errors import DIVERGED, ConfigError, RunError
from tests.server_app.runs.recorded import change, record
from univarfl.report.section import filled_tables
from univarfl.sweeps.benchmark.commands import TUNED
from univarfl.sweeps.benchmark.outcome import BenchmarkRuns, diverged_settings
from univarfl.sweeps.benchmark.plan import Entry, Plan, Tuning, rows, trials
from univarfl.sweeps.benchmark.run import Benchmark, records_in
from univarfl.sweeps.benchmark.tables import Tables

PLAN = Plan(
    seeds=[0, 1, 2],
    tuning=Tuning(cell="a", seeds=[9]),
    cells={"a": "rounds=2"},
    methods={"fedavg": "optim.lr=0.01,0.1", "fedlc": "method.calibration_weight=0.5,0.7"},
)
CHOSEN = {"fedavg": "optim.lr=0.1", "fedlc": "method.calibration_weight=0.7"}
ACCURACIES = {"fedavg": (0.5, 0.6, 0.7), "fedlc": (0.6, 0.6, 0.9)}


@pytest.fixture(scope="module")
def every_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with every run of the plan, of known accuracies."""
    directory = tmp_path_factory.mktemp("every_run")
    for number, entry in enumerate(entries()):
        last = ACCURACIES[entry.method][entry.seed] if entry.seed in PLAN.seeds else 0.5
        tried = last + 0.1 * (entry.value == CHOSEN[entry.method])
        made = record(directory, f"run{number}", entry.words, [0.1, 0.3, last], [0.1, tried, tried])
        change(made, reply_bytes=1000)
    return directory


@pytest.fixture
def place(every_run: Path, tmp_path: Path) -> Path:
    """Return a copy of `every_run` that a test may change."""
    return shutil.copytree(every_run, tmp_path, dirs_exist_ok=True)


def entries() -> list[Entry]:
    """Return every run of the plan."""
    return [
        each
        for method in PLAN.methods
        for each in (*trials(PLAN, method), *rows(PLAN, method, CHOSEN[method]))
    ]


def directory_of(place: Path, method: str, seed: int) -> Path:
    """Return the directory of a method's tuned run."""
    outcome = Benchmark(PLAN, place).outcome()
    (entry,) = (e for e in outcome.rows(method) if e.seed == seed and e.value)
    run = outcome.run_of(entry)
    assert run is not None
    return run.directory


def row_of(place: Path, title: str, method: str) -> dict[str, str]:
    """Return a method's row of one table."""
    table = filled_tables(Tables(Benchmark(PLAN, place).outcome()).sections())[title]
    (row,) = (row for row in table.to_dict("records") if row["method"] == method)
    return {str(key): str(value) for key, value in row.items()}


def test_wins_losses_and_ties_are_counted(place: Path) -> None:
    row = row_of(place, "Minus FedAvg", "FedLC")
    assert (row["wins"], row["losses"], row["ties"]) == ("2", "0", "1")
    assert row["a"].startswith("+10.0 (")


def test_statistics_of_all_images_are_ranked_in_tables_of_their_own(place: Path) -> None:
    """There FedAvg leads on each seed."""
    before = filled_tables(Tables(Benchmark(PLAN, place).outcome()).sections())
    assert not any("statistics of all images" in title for title in before)
    for method, exact in (("fedavg", 0.9), ("fedlc", 0.8)):
        for seed in PLAN.seeds:
            readings = {ALL_IMAGES: {"accuracy": exact}}
            change(directory_of(place, method, seed), statistics={"readings": readings})
    row = row_of(place, "With statistics of all images", "FedLC")
    assert (row["a"], row["rank, statistics of all images"]) == ("80.0 ± 0.0", "2.0")
    row = row_of(place, "Minus FedAvg, statistics of all images", "FedLC")
    assert (row["losses"], row["a"]) == ("3", "-10.0")


def test_a_missing_seed_is_named_in_each_cell(place: Path) -> None:
    for path in directory_of(place, "fedlc", 2).iterdir():
        path.unlink()
    outcome = Benchmark(PLAN, place).outcome()
    row = Tables(outcome).standing(TUNED).set_index("method").loc["FedLC"]
    assert row["a"] == "60.0 ± 0.0 (2 of 3 seeds)"
    assert row_of(place, "Minus FedAvg", "FedLC")["a"].endswith("(2 of 3 seeds)")


def test_a_run_that_diverged_is_the_worst_a_loss_and_not_run_again(place: Path) -> None:
    change(directory_of(place, "fedlc", 2), status="failed", reason=f"client 1: {DIVERGED}")
    outcome = BenchmarkRuns(PLAN, records_in(place).runs, diverged_settings(place))
    assert outcome.missing(outcome.rows("fedlc")) == []
    tables = Tables(outcome)
    standing = tables.standing(TUNED).set_index("method")
    assert standing.loc["FedLC", "a"] == "60.0 ± 0.0 (1 diverged)"
    assert standing.loc["FedLC", "rank, last round"] == "1.5"  # first, shared, last
    row = row_of(place, "Minus FedAvg", "FedLC")
    assert (row["wins"], row["losses"], row["ties"]) == ("1", "1", "1")
    assert row["a"].endswith("(1 diverged)")
    assert (
        filled_tables(tables.sections())["Rounds and seconds to FedAvg's accuracy"]["a"].iloc[1]
        != "never"
    )


def test_of_two_that_diverged_none_is_ahead(place: Path) -> None:
    for method, seed in (("fedavg", 0), ("fedlc", 0), ("fedavg", 1)):
        run = directory_of(place, method, seed)
        change(run, status="failed", reason=f"client 1: {DIVERGED}")
    table = Tables(BenchmarkRuns(PLAN, records_in(place).runs, diverged_settings(place)))
    (row,) = table.differences(TUNED).to_dict("records")
    assert (row["wins"], row["losses"], row["ties"]) == ("2", "0", "1")
    assert row["a"] == "+20.0 (2 diverged)"


def test_runs_on_other_images_do_not_count(place: Path) -> None:
    change(directory_of(place, "fedlc", 2), data_version="other", started="2999-01-01T00:00:00Z")
    outcome = Benchmark(PLAN, place).outcome()
    (line,) = outcome.left_out()
    assert line.startswith("data=digits: ")
    assert "used other images" in line
    assert len(outcome.missing(outcome.rows("fedavg"))) == len(outcome.rows("fedavg"))


def test_a_damaged_record_is_named(place: Path) -> None:
    """Its sweep takes it for completed, because `run.json` says so."""
    damaged = directory_of(place, "fedlc", 2)
    change(damaged, results={"test": {"accuracy": 0.9}})
    (damaged / "rounds.csv").write_text("round,split\n1")
    with pytest.raises(RunError, match="cannot be read; delete") as raised:
        Benchmark(PLAN, place).run()
    assert damaged.name in str(raised.value)
    assert damaged.name in (place / "report" / "index.html").read_text()


def test_a_target_can_be_reached_before_the_first_round(tmp_path: Path) -> None:
    for number, entry in enumerate(entries()):
        values = [0.9, 0.9, 0.9] if entry.method == "fedlc" else [0.1, 0.3, 0.5]
        tried = 0.6 if entry.value == CHOSEN[entry.method] else 0.5
        made = record(tmp_path, f"run{number}", entry.words, values, [0.1, tried, tried])
        change(made, reply_bytes=1000)
    row = row_of(tmp_path, "Rounds and seconds to FedAvg's accuracy", "FedLC")
    assert row["a"] == "0.0 rounds, 0 s"


TWO_TRIALS = PLAN.model_copy(
    update={
        "cells": {"a": "rounds=6"},
        "methods": {"fedavg": PLAN.methods["fedavg"]},
        "tuning": Tuning(cell="a", seeds=[8, 9]),
    }
)


class Tuned:
    """The trials of two values of FedAvg, two seeds each.

    The first value is better on average over the last five rounds, the second in the last one.
    """

    first, second = "optim.lr=0.01", "optim.lr=0.1"

    def __init__(self, place: Path) -> None:
        curves = {
            self.first: [0.0, 0.8, 0.8, 0.8, 0.8, 0.5],
            self.second: [0.9, 0.4, 0.4, 0.4, 0.4, 0.6],
        }
        self.place = place
        self.runs = {
            (entry.value, entry.seed): record(
                place, f"trial{number}", entry.words, [0.1, *curves[entry.value]]
            )
            for number, entry in enumerate(trials(TWO_TRIALS, "fedavg"))
        }

    def outcome(self) -> BenchmarkRuns:
        return BenchmarkRuns(TWO_TRIALS, records_in(self.place).runs, diverged_settings(self.place))

    def scores(self) -> list[float | None]:
        return [trial.score for trial in self.outcome().trials["fedavg"]]


@pytest.fixture
def tuned(tmp_path: Path) -> Tuned:
    return Tuned(tmp_path)


def test_a_value_is_chosen_by_its_last_five_rounds(tuned: Tuned) -> None:
    """Not by the last one alone, and not by all of them."""
    assert tuned.scores() == pytest.approx([(4 * 0.8 + 0.5) / 5, (4 * 0.4 + 0.6) / 5])
    assert tuned.outcome().chosen("fedavg") == tuned.first


def test_no_value_is_chosen_while_a_trial_is_missing(tuned: Tuned) -> None:
    shutil.rmtree(tuned.runs[tuned.second, 9])
    assert [score is None for score in tuned.scores()] == [False, True]
    assert tuned.outcome().chosen("fedavg") is None


def test_a_value_that_diverged_once_is_the_worst(tuned: Tuned) -> None:
    run = tuned.runs[tuned.first, 9]
    change(run, status="failed", reason=f"client 1: {DIVERGED}")
    assert tuned.scores()[0] == -math.inf
    assert tuned.outcome().chosen("fedavg") == tuned.second


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ({"a": "data=mnist data.root=/a", "b": "data=mnist data.root=/b"}, "settings of cell a"),
        ({"a": "data.validation_share=0"}, "has no validation images"),
        ({"a": "privacy=example model.norm=group"}, "has no validation images"),
    ],
)
def test_plans_that_cannot_be_compared_are_refused(
    cells: dict[str, str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match=said):
        Benchmark(PLAN.model_copy(update={"cells": cells}), tmp_path)
