"""Runs that end because their validation score does not improve (``stop=patience``)."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import pytest

from server_app.config.composition import compose_experiment
from server_app.config.resuming import whole_words
from server_app.rounds.ending.final_stage import FinalStage
from server_app.rounds.patience import Patience
from server_app.runs.records.run_record import read_entries, read_record
from task.errors import ConfigError
from tests.absent_sites import Run
from tests.conftest import Train, rows, sha256
from tests.interruption import ended_in
from univarfl.engines.train import train_experiment
from univarfl.records.reader import read_runs
from univarfl.report.comparison import compare
from univarfl.report.summary import Summary

# Nothing after round 1 is better by more than 1, so that the run ends with round 1 + patience.
STOPS = ("stop=patience", "stop.patience=2", "stop.min_delta=1", "rounds=6")


def end_of(scores: Sequence[float], *words: str, rounds: int = 20) -> tuple[int, Patience]:
    """The last round of a run with these scores after rounds 1, 2, ..., and what decided it."""
    experiment = compose_experiment(["stop=patience", f"rounds={rounds}", *words])
    end = Patience(experiment)
    at = 0
    while at < end.rounds:
        at += 1
        if at % experiment.evaluate_every == 0 or at == rounds:
            may = end.may_follow(at)
            end.see(at, {experiment.stop.metric: scores[at - 1]} if at <= len(scores) else {})
            assert may or at < end.rounds
            again = Patience(experiment)
            again.restore(at, json.loads(json.dumps(dict(end.state()))))
            assert vars(again) == vars(end)
    return at, end


@pytest.mark.parametrize(
    ("scores", "words", "last", "best_round"),
    [
        ([0.1, 0.2, 0.2, 0.15, 0.3], ["stop.patience=2"], 4, 2),
        ([0.1, 0.2, 0.2, 0.3, 0.3, 0.3], ["stop.patience=2"], 6, 4),
        ([0.1, 0.14, 0.18, 0.22, 0.2], ["stop.patience=2", "stop.min_delta=0.05"], 5, 3),
        ([3.0, 2.0, 2.5, 2.0], ["stop.patience=2", "stop.metric=loss"], 4, 2),
        ([0.9, 0.8, 0.7, 0.6, 0.5, 0.4], ["stop.patience=3", "evaluate_every=2"], 6, 2),
        ([0.9, math.nan, math.nan, 0.5], ["stop.patience=2"], 4, 1),
    ],
)
def test_the_last_round(scores: list[float], words: list[str], last: int, best_round: int) -> None:
    found, end = end_of(scores, *words)
    assert found == last
    assert {key: end.described()[key] for key in ("round", "best_round", "best")} == {
        "round": last, "best_round": best_round, "best": scores[best_round - 1]
    }  # fmt: skip


@pytest.mark.parametrize("scores", [[0.1 * at for at in range(1, 6)], [], [0.5, 0.4, 0.4]])
def test_a_run_whose_score_improves_or_is_not_known_has_all_rounds(scores: list[float]) -> None:
    last, end = end_of(scores, "stop.patience=3", rounds=5)
    assert last == 5
    assert end.described() == {}


def test_the_model_is_that_of_a_run_with_as_many_rounds(train: Train) -> None:
    run = train(*STOPS)
    record = read_record(run)
    assert record.status == "completed"
    assert record.stopped
    assert (record.stopped.round, record.stopped.best_round) == (3, 1)
    assert {row["round"] for row in rows(run, "rounds.csv")} == {"0", "1", "2", "3"}
    assert (run / "confusion.csv").exists()
    assert not (run / "checkpoints").exists()
    assert sha256(run) == sha256(train("rounds=3"))
    assert "stopped" not in read_entries(train("rounds=1", "stop=patience"))


def test_the_learning_rate_is_that_of_the_configured_rounds(train: Train) -> None:
    run = train(*STOPS, "optim.schedule=cosine")
    rates = [
        float(row["value"]) for row in rows(run, "rounds.csv") if row["metric"] == "learning_rate"
    ]
    assert rates == [0.1 * (1 + math.cos(math.pi * at / 6)) / 2 for at in range(3)]


def test_all_clients_validate_if_a_part_trains(train: Train) -> None:
    run = train(*STOPS, "rho=0.5")
    counts = [
        (row["split"], float(row["value"]))
        for row in rows(run, "rounds.csv")
        if row["metric"] == "clients"
    ]
    assert sorted(counts) == [("train", 2.0)] * 3 + [("validation", 4.0)] * 3


def resumed(run: Path) -> Path:
    """Resume a run."""
    words = whole_words([f"resume={run}"])
    return train_experiment(compose_experiment(words), words)


@pytest.mark.parametrize("ends", [2, 3])
def test_a_resumed_run_stops_after_the_same_round(train: Train, ends: int) -> None:
    whole = train(*STOPS)
    with ended_in(ends), pytest.raises(KeyboardInterrupt):
        train(*STOPS, "run_id=ended")
    run = resumed(whole.parent / "ended")
    assert sha256(run) == sha256(whole)
    assert read_record(run).stopped == read_record(whole).stopped


@pytest.mark.slow
def test_the_stage_after_training_follows_and_a_run_is_resumed_there(train: Train) -> None:
    words = (*STOPS, "after=feddf", "after.steps=3", "after.batch_size=32")  # needs the models
    whole = train(*words)
    assert read_record(whole).after
    assert sha256(whole) == sha256(train(*words[4:], "rounds=3"))
    ends = patch.object(FinalStage, "run", side_effect=KeyboardInterrupt)
    with ends, pytest.raises(KeyboardInterrupt):
        train(*words, "run_id=ended")
    assert sha256(resumed(whole.parent / "ended")) == sha256(whole)


def test_sites_stop(run_at_sites: Run) -> None:
    stopped = read_record(run_at_sites(*STOPS[:3])).stopped
    assert stopped
    assert stopped.round == 3


def test_masked_rounds_stop(train: Train) -> None:
    run = train(*STOPS, "secure=masked", "method=fedavg", "rho=0.75")
    stopped = read_record(run).stopped
    assert stopped
    assert stopped.round == 3


def test_runs_of_different_lengths_are_compared(train: Train) -> None:
    first = train(*STOPS, "seed=0")
    train(*STOPS, "seed=1", "stop.min_delta=0", "stop.patience=5")
    other = train("rounds=6", "seed=0", "method=fedavg")
    found = read_runs(first.parent)
    assert found.problems == []
    summary = Summary(found.runs)
    assert dict(zip(summary.frame["run"], summary.frame["rounds"], strict=True))[first.name] == 3
    compared = compare(first, other)
    assert "the runs ended after 3 to 6 rounds" in compared.warnings()[-1]
    assert compared.paired_test().startswith("second - first, last round: ")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["data.validation_share=0"], "watches the clients' validation images; add data.valid"),
        (["strategy=dp_fixed", "model=lenet"], "watches scores without noise, which strategy=dp"),
        (["method=ridge", "rounds=1"], "has no effect with method=ridge"),
        (["strategy=fedbuff", "clock=virtual", "participation=available"], "has all clients val"),
        (["evaluate_every=20"], "must be at least evaluate_every=20; raise it, or lower"),
    ],
)
def test_what_does_not_fit_is_refused(words: list[str], reason: str) -> None:
    with pytest.raises(ConfigError) as error:
        compose_experiment(["stop=patience", *words])
    assert str(error.value).startswith(f"stop.patience=10: {reason}")
