"""One worker's reply, correct but for one thing: the reason, and what still counts."""

from typing import Any

import pytest
import torch
from torch import Tensor

from server_app.aggregation.accumulator import UpdateAccumulator
from server_app.aggregation.training_replies import add_reply
from server_app.nodes.assignment import WorkUnit
from server_app.nodes.failure import Failure, last_line
from task.errors import ProtocolError
from task.exact_sum import ExactSum
from task.methods.base import Contribution
from task.methods.fednova import FIRST_LENGTH, LENGTH, NormalisedStep
from task.protocol.tensors import PackedTensors
from task.protocol.training import SUM, TrainReply
from task.tensors import Tensors
from tests.server_app.aggregation.updates import (
    NODE,
    accumulator_of,
    model,
    row,
    train_reply,
)

CLIENTS = [3, 4]
BEFORE = {"w": torch.zeros(2), "batches": torch.tensor(0)}
SENT = {"w": torch.ones(2), "batches": torch.tensor(3)}


def reasons(
    reply: TrainReply | Failure,
    accumulator: UpdateAccumulator,
    clients: list[int],
    summed: bool = False,
) -> list[str]:
    """Why each client does not count; empty for those that do."""
    add_reply(WorkUnit(NODE, clients), reply, accumulator, summed)
    return [accumulator.updates[client].reason for client in clients]


@pytest.mark.parametrize(
    ("changes", "sent", "reason"),
    [
        ({"examples": -5}, SENT, "examples: Input should be greater than or equal to 0"),
        ({"examples": 10**9}, SENT, "it reports 1000000000 training images and has 5"),
        ({"examples": 0}, SENT, "it reports 0 training images and has 5"),
        ({"losses": {"ce": float("nan")}}, SENT, "losses.ce: Input should be a finite number"),
        ({"seconds": float("inf")}, SENT, "seconds: Input should be a finite number"),
        ({"reason": "two\nlines"}, SENT, "reason: must be printable, on one line"),
        ({"device": 3}, SENT, "device: Input should be a valid string"),
        ({"more": 1}, SENT, "more: Extra inputs are not permitted"),
        ({"reason": "OSError: disk"}, SENT, "OSError: disk"),
        ({"client": 9}, SENT, "the worker's reply has no row for it"),
        ({}, {**SENT, "batches": torch.tensor(2**40)}, "batches counts more than a round can"),
        ({}, {**SENT, "more": torch.ones(1)}, "the arrays have other names than"),
        ({}, {"w": SENT["w"]}, "the arrays have other names than"),
        ({}, {**SENT, "w": torch.ones(3)}, "w is float32(3,), not float32(2,)"),
        ({}, {**SENT, "w": torch.ones(2).double()}, "w is float64(2,), not float32(2,)"),
        ({}, {**SENT, "w": torch.tensor([1, float("nan")])}, "w is not finite"),
        ({}, {**SENT, "w": torch.tensor([1, float("inf")])}, "w is not finite"),
        ({}, {**SENT, "w": torch.tensor([1, 1e30])}, "w has numbers beyond 65,536"),
    ],
)
def test_one_client_is_refused_and_the_other_counts(
    changes: dict[str, Any], sent: Tensors, reason: str
) -> None:
    accumulator = accumulator_of(CLIENTS, BEFORE, keep=True)
    reply = train_reply([row(3) | changes, row(4)], {3: sent, 4: SENT})
    first, second = reasons(reply, accumulator, CLIENTS)
    assert reason in first
    assert second == ""
    assert accumulator.accepted == [4]
    assert list(accumulator.models) == [4]
    assert accumulator.mean()["w"].tolist() == [1.0, 1.0]


def test_an_update_that_counts() -> None:
    accumulator = accumulator_of([3], each=True)
    assert reasons(train_reply([row(3)], {3: model(1.5)}), accumulator, [3]) == [""]
    found = accumulator.updates[3]
    assert (found.client, found.examples, found.site, found.device) == (3, 5, "supernode-0", "cpu")
    assert found.losses == {"ce": 0.5}
    assert torch.equal(accumulator.mean()["w"], torch.full((2, 2), 1.5).double())
    assert torch.equal(accumulator.moved[3]["w"], torch.full((2, 2), 1.5))


def test_an_update_that_was_read_leaves_the_reply() -> None:
    reply = train_reply([row(3)], {3: model(1.5)}, {3: {"c": torch.zeros(2)}})
    assert reasons(reply, accumulator_of([3], extra={"c": torch.zeros(2)}), [3]) == [""]
    assert (reply.weights, reply.extra) == ({}, {})


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        ({}, "other names"),
        ({"c": torch.zeros(3)}, "c is float32(3,), not float32(2,)"),
        ({"c": torch.full((2,), float("nan"))}, "c is not finite"),
        ({"c": torch.zeros(2)}, ""),
    ],
)
def test_what_a_method_sends_beside_the_weights_is_checked_too(
    extra: dict[str, Tensor], reason: str
) -> None:
    accumulator = accumulator_of([3], extra={"c": torch.zeros(2)})
    reply = train_reply([row(3)], {3: model(1.5)}, {3: extra})
    (found,) = reasons(reply, accumulator, [3])
    assert reason in found
    assert bool(accumulator.accepted) == (not reason)


def test_a_client_that_is_named_twice_spoils_the_whole_reply() -> None:
    with pytest.raises(ProtocolError, match="the rows name a client twice"):
        TrainReply.checked(train_reply([row(3)], {}).model_dump() | {"rows": [row(3), row(3)]})


def test_bytes_that_are_not_a_model_cost_their_client_alone() -> None:
    accumulator = accumulator_of(CLIENTS, BEFORE)
    reply = train_reply([row(3), row(4)], {4: SENT})
    reply.weights["3"] = PackedTensors(b"x" * 9)
    first, second = reasons(reply, accumulator, CLIENTS)
    assert "the arrays cannot be read" in first
    assert second == ""


def test_a_missing_model_costs_its_client_alone() -> None:
    accumulator = accumulator_of(CLIENTS, BEFORE)
    found = reasons(train_reply([row(3), row(4)], {4: SENT}), accumulator, CLIENTS)
    assert found == ["its reply holds no weights", ""]


def test_a_worker_that_failed_gives_its_clients_the_reason() -> None:
    accumulator = accumulator_of(CLIENTS)
    assert set(reasons(Failure("the worker failed: no GPU"), accumulator, CLIENTS)) == {
        "the worker failed: no GPU"
    }


def test_the_reason_of_an_error_is_its_last_line() -> None:
    reason = "Traceback ...\n  line 3\nException ClientAppException occurred. Message: no GPU'>\n"
    assert last_line(reason) == "no GPU"
    assert last_line(" \n") == "no reason given"


class TestSum:
    """A worker that adds up clients 0 and 1, whose models are 1.5."""

    def reply(self, reason: str = "", sums: Tensors | None = None, **changes: Any) -> TrainReply:
        total = ExactSum(model(0.0))
        for failed in (False, bool(reason)):
            if not failed:
                total.add(total.to_fixed_point(model(1.5), 0.5))
        rows = [row(0), row(1, reason=reason, **changes)]
        return train_reply(rows, {SUM: total.totals if sums is None else sums})

    def test_it_counts_for_the_clients_in_it(self) -> None:
        accumulator = accumulator_of([0, 1])
        reply = self.reply("OSError: disk")
        assert reasons(reply, accumulator, [0, 1], summed=True) == ["", "OSError: disk"]
        assert accumulator.accepted == [0]
        assert torch.equal(accumulator.mean()["w"], torch.full((2, 2), 1.5).double())

    @pytest.mark.parametrize(
        ("sums", "changes", "reason"),
        [
            ({"w": torch.zeros((2, 2), dtype=torch.int64)}, {}, "other names"),
            (model(1.0), {}, "w is float32(2, 2), not int64(2, 2)"),
            (
                None,
                {"examples": 7},
                "its worker's sum holds client 1: it reports 7 training images and has 5",
            ),
            (
                {"w": torch.full((2, 2), 2**62 + 1), "batches": torch.tensor(3)},
                {},
                "w in the sum is larger than valid models can add up to",
            ),
            (
                {"w": torch.ones((2, 2), dtype=torch.int64), "batches": torch.tensor(2**40)},
                {},
                "batches counts more than a round can",
            ),
        ],
    )
    def test_no_client_counts_if_the_sum_cannot_be_used(
        self, sums: Tensors | None, changes: dict[str, Any], reason: str
    ) -> None:
        accumulator = accumulator_of([0, 1])
        found = reasons(self.reply("", sums, **changes), accumulator, [0, 1], summed=True)
        assert all(found)
        assert reason in found[0]
        assert not accumulator.accepted

    def test_no_client_counts_if_the_sum_of_what_the_method_sends_is_too_large(self) -> None:
        accumulator = accumulator_of([0, 1], extra={"c": torch.zeros(2)})
        reply = self.reply()
        reply.extra[SUM] = PackedTensors.of({"c": torch.full((2,), 2**62 + 1)})
        found = reasons(reply, accumulator, [0, 1], summed=True)
        assert found == ["c in the sum is larger than valid models can add up to"] * 2
        assert not accumulator.accepted


@pytest.mark.parametrize("length", [0.0, -3.0])
def test_a_length_of_steps_that_fednova_cannot_divide_by_is_refused(length: float) -> None:
    half = NormalisedStep(["w"])
    accumulator = accumulator_of(
        [3], BEFORE, half.broadcast(), keep=True, problem_with=half.problem_with
    )
    reply = train_reply([row(3)], {3: SENT}, {3: {LENGTH: torch.tensor(length)}})
    assert reasons(reply, accumulator, [3]) == [f"its {LENGTH} is not above 0"]
    masked = Contribution(1.0, SENT, {LENGTH: torch.tensor(length)}, 1.0)
    assert half.update(BEFORE, SENT, masked) == SENT
    assert half.state[LENGTH] == FIRST_LENGTH
