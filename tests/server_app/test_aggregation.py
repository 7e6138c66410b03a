"""The next global model, and which updates may enter it."""

from itertools import permutations

import numpy as np
import pytest
import torch
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Message,
    MessageType,
    RecordDict,
)
from torch import Tensor, nn

from client_app.app import app as client_app
from server_app.aggregation import Aggregator
from server_app.engines.inprocess_grid import InProcessGrid
from server_app.guards.none import NoGuard
from server_app.handshake import Seat
from server_app.intake import Intake
from server_app.participation import Cohort
from server_app.replies import ClientUpdate, scores, updates
from server_app.strategies.base import StrategySettings
from server_app.strategies.fedavg import FedAvgSettings
from server_app.weights import Weights, from_tensors, pack, to_record, to_tensors
from task import wire
from task.averaging import ExactSum, shares_of

NO_GUARD = NoGuard(most_images=100)
SEAT = Seat(1000, 0, "cpu", "process", "host")

pytestmark = pytest.mark.usefixtures("flower_identity")


def model(value: float, batches: int = 0) -> Weights:
    return {
        "w": np.full((2, 2), value, dtype=np.float32),
        "batches": np.array(batches, dtype=np.int64),
    }


class Part(nn.Module):
    """A parameter and a counter, as a layer with batch norm has them."""

    batches: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(2, 2))
        self.register_buffer("batches", torch.tensor(0))


def intake_of(settings: StrategySettings, examples: dict[int, int]) -> Intake:
    shares = shares_of({client: settings.weight(count) for client, count in examples.items()})
    return Intake(model(0.0), {}, shares, examples, NO_GUARD, {"w"}, each=False, mean=True)


def aggregated(settings: StrategySettings, given: dict[int, tuple[int, Weights]]) -> Weights:
    """The new weights; by client, the number of its images and its model."""
    intake = intake_of(settings, {client: count for client, (count, _) in given.items()})
    for client, (_, weights) in given.items():
        intake.take(client, weights, {})
    aggregator = Aggregator(settings, Part(), len(given), seed=0)
    return aggregator.aggregate(1, intake, InProcessGrid(client_app, 1))


@pytest.mark.parametrize(("weighting", "mean"), [("examples", 2.5), ("uniform", 2.0)])
def test_the_mean_by_examples_and_uniform(weighting: str, mean: float) -> None:
    """10 and 30 images, weights 1 and 3: (10 * 1 + 30 * 3) / 40 = 2.5; (1 + 3) / 2 = 2."""
    settings = FedAvgSettings(weighting=weighting)  # type: ignore[arg-type]
    new = aggregated(settings, {0: (10, model(1.0)), 1: (30, model(3.0))})
    assert np.array_equal(new["w"], np.full((2, 2), mean))


def test_types_survive_and_counters_stay_counters() -> None:
    new = aggregated(
        FedAvgSettings("examples"), {0: (1, model(1.0, batches=7)), 1: (2, model(2.0, batches=5))}
    )
    assert new["w"].dtype == np.float32
    assert new["batches"].dtype == np.int64
    assert new["batches"] == 7


def test_bits_do_not_depend_on_the_order_of_replies_nor_on_who_adds_up() -> None:
    settings = FedAvgSettings("examples")
    generator = np.random.default_rng(0)
    given = {client: (client + 1, model(generator.normal())) for client in range(4)}
    results = {
        aggregated(settings, dict(order))["w"].tobytes() for order in permutations(given.items())
    }
    for cut in (1, 2, 3):
        intake = intake_of(settings, {client: count for client, (count, _) in given.items()})
        for clients in (range(cut, 4), range(cut)):
            total = ExactSum(to_tensors(model(0.0)))
            for client in clients:
                weights = to_tensors(given[client][1])
                total.add(total.part(weights, intake.shares[client]))
            intake.take_sum(clients, from_tensors(total.totals), {})
        aggregator = Aggregator(settings, Part(), 4, seed=0)
        new = aggregator.aggregate(1, intake, InProcessGrid(client_app, 1))
        results.add(new["w"].tobytes())
    assert len(results) == 1


def test_a_round_without_a_client_is_the_mean_of_the_others() -> None:
    settings = FedAvgSettings("examples")
    intake = intake_of(settings, {0: 10, 1: 30, 2: 60})
    for client, value in ((0, 1.0), (1, 3.0)):
        intake.take(client, model(value), {})
    new = Aggregator(settings, Part(), 3, seed=0).aggregate(1, intake, InProcessGrid(client_app, 1))
    assert np.array_equal(new["w"], np.full((2, 2), 2.5))


class TestJudging:
    def intake(self, extra: Weights | None = None) -> Intake:
        """Of a round in which client 3, which has five images, takes part alone."""
        return Intake(
            model(0.0), extra or {}, {3: 1.0}, {3: 5}, NO_GUARD, {"w"}, each=True, mean=True
        )

    def reply(self, status: dict[str, str], weights: Weights | None, examples: int = 5) -> Message:
        row: dict[str, wire.Cell] = {
            "client": 3,
            "device": "cpu",
            "reason": "",
            "seconds": 0.1,
            "examples": examples,
        }
        content = RecordDict({wire.CLIENTS: ConfigRecord(wire.columns([row | status]))})
        if weights is not None:
            content[wire.key(wire.ARRAYS, 3)] = pack(weights)
        return Message(content, dst_node_id=1, message_type=MessageType.TRAIN)

    def judged(self, reply: Message | None, intake: Intake | None = None) -> ClientUpdate:
        (found,) = updates(Cohort(SEAT, [3]), reply, intake or self.intake(), summed=False)
        return found

    def test_a_good_one_counts(self) -> None:
        intake = self.intake()
        found = self.judged(self.reply({"status": "ok"}, model(1.5)), intake)
        assert found.accepted
        assert (found.client, found.examples, found.site) == (3, 5, "supernode-0")
        assert intake.accepted == [3]
        assert np.array_equal(intake.mean()["w"], np.full((2, 2), 1.5))
        assert np.array_equal(intake.moved[3]["w"].numpy(), np.full((2, 2), 1.5))

    @pytest.mark.parametrize(
        ("weights", "examples", "reason"),
        [
            (
                {"w": np.full((2, 2), np.nan, np.float32), "batches": np.array(1)},
                5,
                "w is not finite",
            ),
            (
                {"w": np.full((2, 2), np.inf, np.float32), "batches": np.array(1)},
                5,
                "w is not finite",
            ),
            ({"w": np.zeros((2, 3), np.float32), "batches": np.array(1)}, 5, "w is float32(2, 3)"),
            ({"w": np.zeros((2, 2)), "batches": np.array(1)}, 5, "w is float64(2, 2)"),
            ({"w": np.zeros((2, 2), np.float32)}, 5, "other names"),
            ({"w": np.zeros((2, 2), np.float32), "batches": np.array(1)}, 0, "trained on 0 images"),
            (
                {"w": np.zeros((2, 2), np.float32), "batches": np.array(1)},
                -4,
                "trained on -4 images, and has 5",
            ),
            (model(1e6), 5, "training diverged: w holds numbers beyond 65,536"),
        ],
    )
    def test_a_bad_one_does_not_and_says_why(
        self, weights: Weights, examples: int, reason: str
    ) -> None:
        intake = self.intake()
        found = self.judged(self.reply({"status": "ok"}, weights, examples), intake)
        assert not found.accepted
        assert reason in found.reason
        assert not intake.accepted

    @pytest.mark.parametrize(
        ("extra", "reason"),
        [
            ({}, "other names"),
            ({"c": np.zeros(3, np.float32)}, "c is float32(3,), not float32(2,)"),
            ({"c": np.full(2, np.nan, np.float32)}, "c is not finite"),
            ({"c": np.zeros(2, np.float32)}, ""),
        ],
    )
    def test_what_a_method_sends_beside_the_weights_is_judged_too(
        self, extra: Weights, reason: str
    ) -> None:
        reply = self.reply({"status": "ok"}, model(1.5))
        reply.content[wire.key(wire.EXTRA, 3)] = pack(extra)
        found = self.judged(reply, self.intake({"c": np.zeros(2, np.float32)}))
        assert reason in found.reason
        assert found.accepted == (not reason)

    @pytest.mark.parametrize(
        ("name", "record"),
        [
            (wire.CLIENTS, ConfigRecord({"status": ["ok"]})),
            (wire.CLIENTS, ConfigRecord({"client": 3, "status": "ok"})),
            (wire.CLIENTS, ConfigRecord({"client": [3], "status": ["ok", "ok"]})),
            (wire.CLIENTS, ConfigRecord({"client": [3], "status": ["ok"], "device": ["cpu"]})),
            (wire.key(wire.ARRAYS, 3), to_record({"w": np.zeros((2, 2), np.float32)})),
            (wire.key(wire.ARRAYS, 3), to_record({wire.PACKED: np.zeros(9, np.uint8)})),
            (
                wire.key(wire.ARRAYS, 3),
                ArrayRecord({wire.PACKED: Array("uint8", (9,), "numpy.ndarray", b"x")}),
            ),
        ],
    )
    def test_a_reply_of_another_form_does_not_stop_the_round(
        self, name: str, record: ConfigRecord | ArrayRecord
    ) -> None:
        reply = self.reply({"status": "ok"}, model(1.5))
        del reply.content[name]
        assert "its reply cannot be read" in self.judged(reply).reason
        reply.content[name] = record
        assert "its reply cannot be read" in self.judged(reply).reason

    def test_scores_that_cannot_be_are_left_out(self) -> None:
        rows = [
            {"client": client, "examples": 5, "correct": correct, "loss": 1.0}
            for client, correct in ((1, 4), (2, 9), (3, -1), (6, 4))
        ]
        content = RecordDict({wire.CLIENTS: ConfigRecord(wire.columns(rows))})
        reply = Message(content, dst_node_id=1, message_type=MessageType.EVALUATE)
        found, failures = scores([Cohort(SEAT, [1, 2, 3, 4, 5, 6])], [reply], [5] * 6 + [7])
        assert list(found) == [1]
        assert [failure.split(":")[0] for failure in failures] == [
            f"validation of client {client}" for client in (2, 3, 4, 5, 6)
        ]  # fmt: skip

    def test_a_failed_a_silent_and_a_forgotten_client(self) -> None:
        failed = self.judged(self.reply({"status": "failed", "reason": "OSError: disk"}, None))
        assert failed.reason == "OSError: disk"
        assert self.judged(None).reason == "no answer before the round's timeout"
        table = ConfigRecord(wire.columns([{"client": 2, "status": "ok"}]))
        content = RecordDict({wire.CLIENTS: table})
        forgotten = Message(content, dst_node_id=1, message_type=MessageType.TRAIN)
        assert self.judged(forgotten).reason == "missing from its cohort's reply"


class TestASum:
    def reply(self, *statuses: str, weights: Weights | None = None, examples: int = 5) -> Message:
        """A worker's answer for clients 0, 1, ... of five images each, whose models are 1.5."""
        rows, total = [], ExactSum(to_tensors(model(0.0)))
        for client, status in enumerate(statuses):
            row: dict[str, wire.Cell] = {"client": client, "device": "cpu", "status": status}
            row |= {
                "reason": "OSError: disk",
                "seconds": 0.1,
                "examples": examples if client else 5,
            }
            if status == "ok":
                total.add(total.part(to_tensors(model(1.5)), 0.5))
            rows.append(row)
        content = RecordDict({wire.CLIENTS: ConfigRecord(wire.columns(rows))})
        sums = from_tensors(total.totals) if weights is None else weights
        content[wire.key(wire.ARRAYS, wire.SUM)] = pack(sums)
        return Message(content, dst_node_id=1, message_type=MessageType.TRAIN)

    def judged(self, reply: Message) -> tuple[list[str], Intake]:
        intake = Intake(
            model(0.0), {}, {0: 0.5, 1: 0.5}, {0: 5, 1: 5}, NO_GUARD, {"w"}, each=False, mean=True
        )
        found = updates(Cohort(SEAT, [0, 1]), reply, intake, summed=True)
        return [update.reason for update in found], intake

    def test_it_counts_for_those_in_it(self) -> None:
        reasons, intake = self.judged(self.reply("ok", "failed"))
        assert reasons == ["", "OSError: disk"]
        assert intake.accepted == [0]
        assert np.array_equal(intake.mean()["w"], np.full((2, 2), 1.5))

    @pytest.mark.parametrize(
        ("weights", "examples", "reason"),
        [
            ({"w": np.zeros((2, 2), np.int64)}, 5, "other names"),
            (model(1.0), 5, "w is float32(2, 2), not int64(2, 2)"),
            (None, 7, "its worker's sum holds client 1: it says it trained on 7 images, and has 5"),
        ],
    )
    def test_nobody_in_it_counts_if_it_cannot(
        self, weights: Weights | None, examples: int, reason: str
    ) -> None:
        reasons, intake = self.judged(self.reply("ok", "ok", weights=weights, examples=examples))
        assert all(reasons)
        assert reason in reasons[0]
        assert not intake.accepted
