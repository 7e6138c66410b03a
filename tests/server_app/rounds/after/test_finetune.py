"""Fine-tuning at the clients after the last round."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from client_app.after.finetuning import finetune_clients
from client_app.session import Session
from server_app.config.composition import compose_experiment
from server_app.runs.records.run_record import read_entries
from task.errors import ConfigError, RunError
from task.protocol.after.finetuning import FinetuneRequest
from task.protocol.tensors import PackedTensors
from task.training.after.finetuning import Finetuner, Finetuning, read_finetuning
from task.training.evaluation import Score
from task.training.worker import Worker
from tests.conftest import SMALL, SMALL_CNN, Train, model_for, rows, sha256
from univarfl.records.reader import read_runs
from univarfl.records.scores import read_client_scores
from univarfl.report.after_training import after_training_table
from univarfl.report.summary import Summary

WORDS = ("after=finetune", "after.epochs=2", "after.lr=0.01", "data.validation_share=0.3")


def test_the_clients_are_scored_before_and_after_and_the_model_stays(train: Train) -> None:
    plain, tuned = train(*WORDS[3:]), train(*WORDS)
    assert sha256(plain) == sha256(tuned)
    before, after = read_entries(plain), read_entries(tuned)
    assert after["results"] == before["results"]
    assert after["after"]["before"] == before["client_scores"]
    assert after["after"]["after"] == after["client_scores"]
    assert after["after"]["clients"] == 4
    scores = read_client_scores(tuned)
    assert [score.client for score in scores] == [0, 1, 2, 3]
    assert scores != read_client_scores(plain)
    (row,) = after_training_table(Summary(read_runs(tuned).runs)).to_dict("records")
    assert row["stage"] == "fine-tuning"
    assert row["before, %"] == f"{100 * before['client_scores']['mean']:.1f}"


@pytest.mark.parametrize("method", ["freeze", "fedbn+moon", "fedper"])
def test_scores_do_not_depend_on_the_workers(train: Train, method: str) -> None:
    words = [*WORDS, *model_for(method), f"method={method}", "rounds=1"]
    words.append("optim.keep_momentum=true")
    one, three = train(*words), train(*words, "federation.workers=3")
    assert read_client_scores(one) == read_client_scores(three)


def tuning(**changes: float) -> Finetuning:
    """Return how the copies are trained."""
    settings = {"epochs": 1, "batch_size": 16, "lr": 0.1, "momentum": 0.9, **changes}
    return read_finetuning({"name": "finetune", **settings})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"epochs": 0}, "after.epochs=0: must be greater than or equal to 1"),
        ({"lr": float("inf")}, "after.lr=inf: must be"),
        ({"images": 1}, "after.images=1: "),
    ],
)
def test_a_client_checks_how_it_is_to_tune(changes: dict[str, float], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        tuning(**changes)


def test_a_frozen_classifier_is_trained_in_the_copy_alone() -> None:
    worker = Worker(compose_experiment([*SMALL, *WORDS, "method=freeze"]).local())
    weights, finetuner = worker.initial_weights(), Finetuner(worker, tuning())
    before, after = finetuner.scores(weights, 0, {})
    assert before == worker.validate_personal(weights, 0, {})
    assert before != after == Finetuner(worker, tuning()).scores(weights, 0, {})[1]
    moved = finetuner._trainer.model.state_dict()["classifier.weight"]
    assert not moved.cpu().equal(weights["classifier.weight"])
    assert not any(
        value.requires_grad for value in worker.model.get_submodule("classifier").parameters()
    )


def test_measured_statistics_are_measured_again_before_the_second_score() -> None:
    words = [*SMALL_CNN, *WORDS, "method=fedbn", "method.statistics=measured"]
    worker = Worker(compose_experiment(words).local())
    # No weight moves, but the averages do.
    still = Finetuner(worker, tuning(lr=1e-30, momentum=0.0))
    before, after = still.scores(worker.initial_weights(), 0, {})
    assert before == after


def test_a_client_that_fails_costs_itself_alone(train: Train) -> None:
    scores = Finetuner.scores

    def fail(self: Finetuner, weights: Any, client: int, *more: Any) -> tuple[Score, Score]:
        if client == 2:
            raise RuntimeError("the disk is full")
        return scores(self, weights, client, *more)

    with patch.object(Finetuner, "scores", fail):
        run = train(*WORDS, "rounds=1")
    assert [score.client for score in read_client_scores(run)] == [0, 1, 3]
    assert list(read_entries(run)["after"]["missing"]) == ["2"]
    (event,) = rows(run, "events.csv")
    assert event["event"].startswith("client 2: not fine-tuned: ")


def test_if_nobody_answers_the_run_fails(train: Train) -> None:
    with (
        patch.object(Finetuner, "scores", side_effect=RuntimeError("offline")),
        pytest.raises(RunError, match="after=finetune: no client was fine-tuned; the first: "),
    ):
        train(*WORDS, "rounds=1")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("secure=masked", "which secure=masked hides"),
        ("data.validation_share=0", "scores clients on images that they hold out"),
        ("after.epochs=0", "must be from 1 to 1,000,000"),
        ("after.batch_size=1000001", "must be from 2 to 1,000,000"),
        ("after.lr=0", "must be above 0"),
        ("after.momentum=1", "must be from 0 to below 1"),
        ("strategy=dp_fixed model.norm=group", "without noise"),
    ],
)
def test_what_does_not_fit_is_refused(words: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        compose_experiment(["after=finetune", *words.split()])


def test_guards_and_robust_strategies_are_allowed() -> None:
    found = compose_experiment(["after=finetune", "guard=clip", "strategy=krum"])
    assert found.after["name"] == "finetune"


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"max-epochs": 1}, "trains at most 1 local epochs at a time (its max-epochs)"),
        (
            {"max-batch-size": 8},
            "trains on batches of at most 8 images (its max-batch-size)",
        ),
    ],
)
def test_a_sites_limits_hold(tmp_path: Path, limits: dict[str, int], reason: str) -> None:
    words = ["data=folder", "data.classes=[cat,dog]", "partition=sites", "partition.names=[east]"]
    stage = ["rounds=1", "after=finetune", "after.epochs=2", "data.validation_share=0.3"]
    text = compose_experiment([*words, *stage, "local_epochs=1"]).local().model_dump_json()
    fields: dict[str, Any] = {
        "run": "run", "experiment": text, "fingerprint": "0" * 64, "clients": [0], "accepted": [0],
        "round": 1, "weights": PackedTensors(),
    }  # fmt: skip
    node = {"site": "east", "data-dir": str(tmp_path), **limits}
    with pytest.raises(Exception) as caught:  # noqa: PT011
        finetune_clients(Session(FinetuneRequest(**fields), node))
    assert reason in str(caught.value)
