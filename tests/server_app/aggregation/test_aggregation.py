"""The next global model."""

from itertools import permutations

import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord
from torch import Tensor, nn

from client_app.app import app as client_app
from server_app.aggregation.accumulator import SumSettings, UpdateAccumulator
from server_app.aggregation.aggregator import Aggregator
from server_app.aggregation.guards.none import NoGuard
from server_app.aggregation.strategies.base import StrategySettings
from server_app.aggregation.strategies.fedavg import FedAvgSettings
from server_app.aggregation.strategies.fedmedian import FedMedianSettings
from task.exact_sum import ExactSum, normalise_weights
from task.tensors import Tensors
from tests.server_app.aggregation.updates import accumulator_of, model, update
from univarfl.engines.local.inprocess_grid import InProcessGrid

NO_GUARD = NoGuard(most_images=100)

pytestmark = pytest.mark.usefixtures("flower_identity")


class Part(nn.Module):
    """A parameter and a counter, as a layer with batch norm has them."""

    batches: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(2, 2))
        self.register_buffer("batches", torch.tensor(0))


def accumulator_for(settings: StrategySettings, examples: dict[int, int]) -> UpdateAccumulator:
    shares = normalise_weights(
        {client: settings.weight(count) for client, count in examples.items()}
    )
    return UpdateAccumulator(model(0.0), {}, shares, examples, SumSettings(NO_GUARD, {"w"}, []))


def aggregated(settings: StrategySettings, given: dict[int, tuple[int, Tensors]]) -> Tensors:
    """The new weights; by client, the number of its images and its model."""
    accumulator = accumulator_for(settings, {client: count for client, (count, _) in given.items()})
    for client, (_, weights) in given.items():
        accumulator.add(update(client), weights, {})
    aggregator = Aggregator(settings, Part(), len(given), seed=0)
    return aggregator.aggregate(1, accumulator, InProcessGrid(client_app, 1))


@pytest.mark.parametrize(("weighting", "mean"), [("examples", 2.5), ("uniform", 2.0)])
def test_the_mean_by_examples_and_uniform(weighting: str, mean: float) -> None:
    """10 and 30 images, weights 1 and 3: (10 * 1 + 30 * 3) / 40 = 2.5; (1 + 3) / 2 = 2."""
    settings = FedAvgSettings(weighting=weighting)  # type: ignore[arg-type]
    new = aggregated(settings, {0: (10, model(1.0)), 1: (30, model(3.0))})
    assert torch.equal(new["w"], torch.full((2, 2), mean))


def test_types_survive_and_counters_stay_counters() -> None:
    new = aggregated(
        FedAvgSettings("examples"), {0: (1, model(1.0, batches=7)), 1: (2, model(2.0, batches=5))}
    )
    assert new["w"].dtype == torch.float32
    assert new["batches"].dtype == torch.int64
    assert new["batches"] == 7


def test_bits_do_not_depend_on_the_order_of_replies_nor_on_who_adds_up() -> None:
    settings = FedAvgSettings("examples")
    generator = np.random.default_rng(0)
    given = {client: (client + 1, model(generator.normal())) for client in range(4)}
    results = {
        aggregated(settings, dict(order))["w"].numpy().tobytes()
        for order in permutations(given.items())
    }
    for cut in (1, 2, 3):
        accumulator = accumulator_for(
            settings, {client: count for client, (count, _) in given.items()}
        )
        for clients in (range(cut, 4), range(cut)):
            total = ExactSum(model(0.0))
            for client in clients:
                weights = given[client][1]
                total.add(total.to_fixed_point(weights, accumulator.shares[client]))
            accumulator.add_sum([update(client) for client in clients], total.totals, {})
        aggregator = Aggregator(settings, Part(), 4, seed=0)
        new = aggregator.aggregate(1, accumulator, InProcessGrid(client_app, 1))
        results.add(new["w"].numpy().tobytes())
    assert len(results) == 1


def test_a_round_without_a_client_is_the_mean_of_the_others() -> None:
    settings = FedAvgSettings("examples")
    accumulator = accumulator_for(settings, {0: 10, 1: 30, 2: 60})
    for client, value in ((0, 1.0), (1, 3.0)):
        accumulator.add(update(client), model(value), {})
    new = Aggregator(settings, Part(), 3, seed=0).aggregate(
        1, accumulator, InProcessGrid(client_app, 1)
    )
    assert torch.equal(new["w"], torch.full((2, 2), 2.5))


def test_each_update_is_released_when_the_strategy_has_a_copy() -> None:
    accumulator = accumulator_of([0, 1, 2], each=True)
    left = []

    class Watching(FedMedianSettings):
        def prepare_update(self, update: ArrayRecord) -> ArrayRecord:
            left.append(len(accumulator.moved))
            return update

    for client in (2, 0, 1):
        accumulator.add(update(client), model(client), {})
    new = Aggregator(Watching(), Part(), 3, seed=0).aggregate(
        1, accumulator, InProcessGrid(client_app, 1)
    )
    assert left == [2, 1, 0]
    assert torch.equal(new["w"], torch.full((2, 2), 1.0))
