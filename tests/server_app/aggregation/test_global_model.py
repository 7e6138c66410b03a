"""The global model's round, where not all clients are known yet or any more."""

from collections.abc import Sequence

import torch

import client_app.app
from server_app.aggregation.client_weights import ClientWeights
from server_app.aggregation.global_model import GlobalModel
from server_app.config.composition import compose_experiment
from task.training.worker import Worker
from tests.conftest import SMALL
from tests.server_app.aggregation.updates import update
from univarfl.engines.local.inprocess_grid import InProcessGrid

SITES = (
    "partition=sites", "partition.names=[east,north,south,west]", "data=folder",
    "data.classes=[cat,dog]",
)  # fmt: skip


def scaffold(sizes: list[int], weighting: str) -> GlobalModel:
    """A global model of four sites; the network is that of the small experiment."""
    words = ["method=scaffold", f"strategy.weighting={weighting}"]
    worker = Worker(compose_experiment([*SMALL, *words]).local())
    experiment = compose_experiment([*words, *SITES])
    return GlobalModel(experiment, worker, ClientWeights(experiment, sizes))


def round_of(model: GlobalModel, server_round: int, changes: Sequence[float]) -> None:
    """A round in which client i's control variate changes by so much everywhere."""
    accumulator = model.accumulator(range(len(changes)), keep=False)
    for client, change in enumerate(changes):
        extra = {name: torch.full_like(value, change) for name, value in model.broadcast.items()}
        accumulator.add(update(client), model.weights, extra)
    model.update(server_round, accumulator, InProcessGrid(client_app.app.app, 1))


def control_variate(model: GlobalModel) -> float:
    (value,) = {float(number) for array in model.broadcast.values() for number in array.ravel()}
    return value


def test_the_servers_control_variate_stays_the_mean_of_all_who_have_come() -> None:
    """1 and 1 of equal clients; two more, who bring 0.5 each: (1 + 1 + 0.5 + 0.5) / 4."""
    for weighting, first in (("examples", 1.0), ("uniform", 0.5)):
        sizes = [100, 100, 0, 0]
        model = scaffold(sizes, weighting)
        round_of(model, 1, [1.0, 1.0])
        assert control_variate(model) == first
        sizes[2:] = [100, 100]
        round_of(model, 2, [0.0, 0.0, 0.5, 0.5])
        assert control_variate(model) == 0.75


def test_a_site_that_is_not_back_when_a_run_goes_on_still_has_its_part() -> None:
    model = scaffold([100, 100, 100, 100], "examples")
    round_of(model, 1, [1.0, 1.0, 1.0, 1.0])
    again = scaffold([100, 100, 0, 0], "examples")
    again.restore(model.state())
    for one in (model, again):
        round_of(one, 2, [-1.0, -1.0])
        assert control_variate(one) == 0.5
