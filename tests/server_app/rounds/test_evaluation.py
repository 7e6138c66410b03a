"""Validation scores that clients report."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from torch import Tensor

from server_app.nodes.assignment import WorkUnit
from server_app.nodes.failure import Failure
from server_app.rounds.kind import read_scores
from task.protocol.evaluation import EvaluateReply
from task.training.evaluation import Metrics, Score
from task.training.worker import Worker
from tests.conftest import Train, rows
from tests.server_app.aggregation.updates import NODE


def reply(rows: list[dict[str, Any]]) -> EvaluateReply:
    return EvaluateReply(
        run="run", round=1, attempt=1, fingerprint="0" * 64, nonce="0" * 32, rows=rows
    )


def test_impossible_scores_are_left_out() -> None:
    rows = [
        {"client": client, "examples": 5, "correct": correct, "loss": 1.0}
        for client, correct in ((1, 4), (2, 9), (3, -1), (6, 4))
    ]
    found, failures = read_scores(
        [WorkUnit(NODE, [1, 2, 3, 4, 5, 6])], [reply(rows)], [5] * 6 + [7]
    )
    assert list(found) == [1]
    assert [failure.split(":")[0] for failure in failures] == [
        f"validation of client {client}" for client in (2, 3, 4, 5, 6)
    ]


def test_a_loss_that_is_not_a_number_is_left_out() -> None:
    rows = [{"client": 0, "examples": 5, "correct": 1, "loss": float("nan")}]
    found, failures = read_scores([WorkUnit(NODE, [0])], [reply(rows)], [5])
    assert not found
    assert failures == ["validation of client 0: loss: Input should be a finite number"]


def test_a_worker_without_an_answer_is_named() -> None:
    failure = Failure("no answer before the round's timeout")
    _, failures = read_scores([WorkUnit(NODE, [0, 1])], [failure], [5, 5])
    assert failures == ["validation on supernode-0: no answer before the round's timeout"]


def test_a_client_that_could_not_be_scored_says_why() -> None:
    rows = [{"client": 0, "reason": "its state is lost"}]
    found, failures = read_scores([WorkUnit(NODE, [0])], [reply(rows)], [0])
    assert not found
    assert failures == ["validation of client 0: its state is lost"]


def test_a_client_without_a_finite_loss_costs_no_other_score(
    train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    validate = Worker.validate

    def overflowing(
        worker: Worker, weights: Mapping[str, Tensor], clients: Sequence[int]
    ) -> list[Score]:
        scores = validate(worker, weights, clients)
        return [
            replace(score, loss=math.inf) if client == 1 else score
            for client, score in zip(clients, scores, strict=True)
        ]

    whole = rows(train("rounds=1"), "rounds.csv")
    monkeypatch.setattr(Worker, "validate", overflowing)
    directory = train("rounds=1")
    found = rows(directory, "rounds.csv")
    scored = [row for row in found if row["split"] == "validation"]
    assert [row["metric"] for row in scored] == [
        row["metric"] for row in whole if row["split"] == "validation"
    ]
    log = (directory / "run.log").read_text()
    assert "validation of client 1: training diverged: the validation loss is not finite" in log


def test_a_long_test_on_the_server_takes_no_time_from_the_clients(
    train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    test, clock, passed = Worker.test, time.monotonic, [0.0]

    def slow(worker: Worker, weights: Mapping[str, Tensor], by_class: bool = False) -> Metrics:
        passed[0] += 10_000 * by_class  # after the last round
        return test(worker, weights, by_class=by_class)

    monkeypatch.setattr(Worker, "test", slow)
    monkeypatch.setattr(time, "monotonic", lambda: clock() + passed[0])
    directory = train("rounds=1")
    assert "validation" in {row["split"] for row in rows(directory, "rounds.csv")}
    assert "no answer before" not in (directory / "run.log").read_text()
