"""The next global model, and which updates may enter it."""

from itertools import permutations
from typing import ClassVar

import numpy as np
import pytest
import torch
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from torch import Tensor, nn

from client_app.app import app as client_app
from server_app.aggregation import Aggregator
from server_app.engines.inprocess_grid import InProcessGrid
from server_app.handshake import Seat
from server_app.participation import Cohort
from server_app.replies import ClientUpdate, scores, updates
from server_app.strategies.base import StrategySettings
from server_app.strategies.fedavg import FedAvgSettings
from server_app.weights import Weights
from task import wire

SEAT = Seat(1000, 0, "cpu", "process", "host")


@pytest.fixture(autouse=True)
def _identity() -> None:
    InProcessGrid(client_app, 1)  # Flower's messages want to know who they are from


def update(client: int, examples: int, value: float, batches: int = 0) -> ClientUpdate:
    weights: Weights = {
        "w": np.full((2, 2), value, dtype=np.float32),
        "batches": np.array(batches, dtype=np.int64),
    }
    return ClientUpdate(client, "site", weights=weights, examples=examples)


class Part(nn.Module):
    """A parameter and a counter, as a layer with batch norm has them."""

    batches: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(2, 2))
        self.register_buffer("batches", torch.tensor(0))


def aggregated(settings: StrategySettings, given: list[ClientUpdate]) -> Weights:
    aggregator = Aggregator(settings, Part(), len(given), seed=0)
    before = update(0, 1, 0.0).weights
    return aggregator.aggregate(1, before, given, InProcessGrid(client_app, 1))


@pytest.mark.parametrize(("weighting", "mean"), [("examples", 2.5), ("uniform", 2.0)])
def test_the_mean_by_examples_and_uniform(weighting: str, mean: float) -> None:
    """10 and 30 images, weights 1 and 3: (10 * 1 + 30 * 3) / 40 = 2.5; (1 + 3) / 2 = 2."""
    settings = FedAvgSettings(weighting=weighting)  # type: ignore[arg-type]
    new = aggregated(settings, [update(0, 10, 1.0), update(1, 30, 3.0)])
    assert np.array_equal(new["w"], np.full((2, 2), mean))


def test_types_survive_and_counters_stay_counters() -> None:
    new = aggregated(
        FedAvgSettings("examples"), [update(0, 1, 1.0, batches=7), update(1, 2, 2.0, batches=5)]
    )
    assert new["w"].dtype == np.float32
    assert new["batches"].dtype == np.int64
    assert new["batches"] == 7


def test_bits_do_not_depend_on_the_order_of_replies() -> None:
    generator = np.random.default_rng(0)
    given = [update(client, client + 1, generator.normal()) for client in range(4)]
    results = [
        aggregated(FedAvgSettings("examples"), list(order))["w"].tobytes()
        for order in permutations(given)
    ]
    assert len(set(results)) == 1


class TestJudging:
    expected = update(0, 1, 0.0).weights
    expected_extra: ClassVar[Weights] = {}

    def reply(self, status: dict[str, str], weights: Weights | None, examples: int = 5) -> Message:
        content = RecordDict({wire.key(wire.STATUS, 3): ConfigRecord({"device": "cpu", **status})})
        if weights is not None:
            arrays = ArrayRecord({name: Array(value) for name, value in weights.items()})
            content[wire.key(wire.ARRAYS, 3)] = arrays
            content[wire.key(wire.METRICS, 3)] = MetricRecord(
                {"examples": examples, "seconds": 0.1}
            )
        return Message(content, dst_node_id=1, message_type=MessageType.TRAIN)

    def judged(self, reply: Message | None) -> ClientUpdate:
        (found,) = updates([Cohort(SEAT, [3])], [reply], self.expected, self.expected_extra)
        return found

    def test_a_good_one_counts(self) -> None:
        found = self.judged(self.reply({"status": "ok"}, update(3, 1, 1.5).weights))
        assert found.accepted
        assert (found.client, found.examples, found.site) == (3, 5, "supernode-0")
        assert np.array_equal(found.weights["w"], np.full((2, 2), 1.5))

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
                "trained on -4 images",
            ),
        ],
    )
    def test_a_bad_one_does_not_and_says_why(
        self, weights: Weights, examples: int, reason: str
    ) -> None:
        found = self.judged(self.reply({"status": "ok"}, weights, examples))
        assert not found.accepted
        assert reason in found.reason

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
        reply = self.reply({"status": "ok"}, update(3, 1, 1.5).weights)
        sent = ArrayRecord({name: Array(value) for name, value in extra.items()})
        reply.content[wire.key(wire.EXTRA, 3)] = sent
        wanted: Weights = {"c": np.zeros(2, np.float32)}
        (found,) = updates([Cohort(SEAT, [3])], [reply], self.expected, wanted)
        assert reason in found.reason
        assert found.accepted == (not reason)

    @pytest.mark.parametrize(
        ("kind", "record"),
        [
            (wire.STATUS, ConfigRecord({"status": "ok"})),
            (wire.STATUS, ConfigRecord({"status": "failed", "device": "cpu"})),
            (wire.METRICS, MetricRecord({"examples": 5})),
            (wire.METRICS, MetricRecord({"examples": 5, "seconds": [0.1]})),
            (wire.ARRAYS, ArrayRecord({"w": Array("float32", (2, 2), "numpy.ndarray", b"x")})),
            (wire.ARRAYS, ArrayRecord({"w": Array("float32", (2, 2), "other", b"")})),
        ],
    )
    def test_a_reply_of_another_form_does_not_stop_the_round(
        self, kind: str, record: ConfigRecord | MetricRecord | ArrayRecord
    ) -> None:
        reply = self.reply({"status": "ok"}, update(3, 1, 1.5).weights)
        del reply.content[wire.key(kind, 3)]
        reply.content[wire.key(kind, 3)] = record
        assert "its reply cannot be read" in self.judged(reply).reason

    def test_scores_that_cannot_be_are_left_out(self) -> None:
        content = RecordDict()
        for client, correct in ((1, 4), (2, 9), (3, -1)):
            counts = MetricRecord({"examples": 5, "correct": correct, "loss": 1.0})
            content[wire.key(wire.METRICS, client)] = counts
        reply = Message(content, dst_node_id=1, message_type=MessageType.EVALUATE)
        found, failures = scores([Cohort(SEAT, [1, 2, 3, 4])], [reply])
        assert list(found) == [1]
        assert [failure.split(":")[0] for failure in failures] == [
            "validation of client 2", "validation of client 3", "validation of client 4",
        ]  # fmt: skip

    def test_a_failed_a_silent_and_a_forgotten_client(self) -> None:
        failed = self.judged(self.reply({"status": "failed", "reason": "OSError: disk"}, None))
        assert failed.reason == "OSError: disk"
        assert self.judged(None).reason == "no answer before the round's timeout"
        forgotten = Message(RecordDict(), dst_node_id=1, message_type=MessageType.TRAIN)
        assert self.judged(forgotten).reason == "missing from its cohort's reply"
