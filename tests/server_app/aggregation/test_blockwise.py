"""Strategies that combine updates block by block: Flower's bits, with less memory."""

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp.strategy import Bulyan, FedMedian, FedTrimmedAvg, Krum, MultiKrum, Strategy
from numpy.typing import NDArray

from server_app.aggregation.aggregator import without_sampling_warning
from server_app.aggregation.strategies.base import COMMON_ARGUMENTS, WEIGHT, StrategySettings
from server_app.aggregation.strategies.bulyan import BulyanSettings
from server_app.aggregation.strategies.families import blocks
from server_app.aggregation.strategies.families.nearest import nearest_updates
from server_app.aggregation.strategies.fedmedian import FedMedianSettings
from server_app.aggregation.strategies.fedtrimmedavg import FedTrimmedAvgSettings
from server_app.aggregation.strategies.krum import KrumSettings
from server_app.aggregation.strategies.multikrum import MultiKrumSettings

Arrays = dict[str, NDArray[Any]]
Draw = Callable[[np.random.Generator, tuple[int, ...]], NDArray[Any]]

OURS: dict[str, StrategySettings] = {
    "fedmedian": FedMedianSettings(),
    "fedtrimmedavg": FedTrimmedAvgSettings(trimmed=0.2),
    "krum": KrumSettings(num_malicious=1),
    "multikrum": MultiKrumSettings(num_malicious=1, selected=5),
    "bulyan": BulyanSettings(num_malicious=1),
}
SHAPES = {"w": (40, 7, 3, 3), "one": (1,), "number": (), "thin": (64, 1), "b": (5,)}
MODEL_BYTES = 4 * 100_000

pytestmark = pytest.mark.usefixtures("flower_identity")


def normal(generator: np.random.Generator, shape: tuple[int, ...]) -> NDArray[Any]:
    """Numbers of very different sizes, so that another order of a sum rounds otherwise."""
    scale = np.exp(generator.normal(0, 4, shape))
    return np.asarray(generator.normal(0, scale), np.float32)


def tied(generator: np.random.Generator, shape: tuple[int, ...]) -> NDArray[Any]:
    """Few different numbers, among them both zeros."""
    return np.asarray(generator.choice([-0.1, -0.0, 0.0, 0.1], shape), np.float32)


def equal(generator: np.random.Generator, shape: tuple[int, ...]) -> NDArray[Any]:
    """The same update from everybody: all distances are 0."""
    return np.full(shape, 0.3, np.float32)


def halves(generator: np.random.Generator, shape: tuple[int, ...]) -> NDArray[Any]:
    """Numbers of another type."""
    return np.asarray(generator.normal(0, 1, shape), np.float64 if len(shape) == 1 else np.float32)


def flowers(name: str) -> Strategy:
    """Flower's own strategy with the same settings."""
    made: dict[str, Callable[[], Strategy]] = {
        "fedmedian": lambda: FedMedian(**COMMON_ARGUMENTS),
        "fedtrimmedavg": lambda: FedTrimmedAvg(**COMMON_ARGUMENTS, beta=0.2),
        "krum": lambda: Krum(**COMMON_ARGUMENTS, num_malicious_nodes=1),
        "multikrum": lambda: MultiKrum(
            **COMMON_ARGUMENTS, num_malicious_nodes=1, num_nodes_to_select=5
        ),
        "bulyan": lambda: Bulyan(**COMMON_ARGUMENTS, num_malicious_nodes=1),
    }
    return made[name]()


def strategy(name: str, whose: str, updates: int) -> Strategy:
    with without_sampling_warning():
        if whose == "flower":
            return flowers(name)
        built = OURS[name].build(updates)
    OURS[name].prepare_round(built, updates)
    return built


def messages(models: list[Arrays]) -> list[Message]:
    """A reply for each model."""
    return [
        Message(
            RecordDict(
                {
                    "arrays": ArrayRecord({name: Array(value) for name, value in model.items()}),
                    "metrics": MetricRecord({WEIGHT: 1.0}),
                }
            ),
            dst_node_id=place,
            message_type=MessageType.TRAIN,
        )
        for place, model in enumerate(models)
    ]


def aggregated(name: str, whose: str, models: list[Arrays]) -> Arrays:
    found, _ = strategy(name, whose, len(models)).aggregate_train(1, messages(models))
    assert found is not None
    return {key: array.numpy() for key, array in found.items()}


@pytest.mark.parametrize("draw", [normal, tied, equal, halves])
@pytest.mark.parametrize("name", OURS)
def test_the_bits_are_flowers(name: str, draw: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 2000)  # many blocks for the widest array
    monkeypatch.setattr(gc, "collect", lambda: 0)  # Flower's Bulyan calls it for each client
    for clients in (7, 8, 12, 30):
        generator = np.random.default_rng(clients)
        models = [
            {key: draw(generator, shape) for key, shape in SHAPES.items()} for _ in range(clients)
        ]
        ours, theirs = (aggregated(name, whose, models) for whose in ("ours", "flower"))
        assert ours.keys() == theirs.keys()
        for key, value in theirs.items():
            assert (ours[key].dtype, ours[key].shape) == (value.dtype, value.shape), key
            assert ours[key].tobytes() == value.tobytes(), (clients, key)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of numbers whose squares are too large
def test_two_that_send_the_same_are_not_selected_however_large_it_is() -> None:
    """Their product may round to infinity where the sum of their squares does not."""
    generator, largest = np.random.default_rng(0), np.finfo(np.float32).max
    honest = generator.normal(0, 0.01, (5, 60_000)).astype(np.float32)
    tried = 0
    for _ in range(10):
        draw = generator.random(60_000)
        full = np.sqrt(float(largest) / 2 / np.square(draw).sum())
        for factor in 1 + np.arange(-20, 20) * 5e-8:
            sent = (draw * full * factor).astype(np.float32)
            rows = np.stack([*honest, sent, sent])
            tried += bool(np.isfinite(2 * np.square(sent).sum()) and np.isinf(2 * sent @ sent))
            assert set(nearest_updates(rows, 2, 5)) == set(range(5))
    assert tried


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def peak(name: str, whose: str) -> float:
    """The peak of an aggregation and its messages, in models per client."""
    clients, generator = 12, np.random.default_rng(0)
    models: list[Arrays] = [
        {"w": generator.random(MODEL_BYTES // 4, np.float32)} for _ in range(clients)
    ]
    asked, replies = strategy(name, whose, clients), messages(models)
    models.clear()
    tracemalloc.reset_peak()
    asked.aggregate_train(1, replies)
    return tracemalloc.get_traced_memory()[1] / clients / MODEL_BYTES


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("name", OURS)
def test_the_peak_is_below_three_models_a_client_and_flowers_is_above(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The messages or twice the matrix, beside the matrix. Flower's has a list of rows, too."""
    monkeypatch.setattr(blocks, "BLOCK_BYTES", MODEL_BYTES // 8)
    assert peak(name, "ours") < 2.5
    assert peak(name, "flower") > 2.9
