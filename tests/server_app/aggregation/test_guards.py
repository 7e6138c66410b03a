"""Updates with a much larger norm than the others are dropped or clipped, and recorded."""

import re
import weakref

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from server_app.aggregation.accumulator import UpdateAccumulator
from server_app.aggregation.guards.clip import Clip
from server_app.aggregation.guards.drop import Drop
from server_app.aggregation.update_filter import UpdateFilter
from server_app.config.composition import compose_experiment
from task.errors import ConfigError
from tests.conftest import Train, faulty, rows, sha256
from tests.server_app.aggregation.updates import accumulator_of, update

pytestmark = pytest.mark.usefixtures("parts")

BEFORE = {"w": torch.zeros(2), "mean": torch.zeros(1), "count": torch.tensor(0)}


def filtered(
    guard: Drop | Clip, sent: dict[int, tuple[float, float]]
) -> tuple[UpdateAccumulator, list[str]]:
    """The accumulator, and the reasons, after updates of these norms.

    By client: the norm of its parameters' update and that of its statistics' update.
    """
    accumulator = accumulator_of(list(sent), BEFORE, guard=guard)
    for client, (parameters, statistics) in sent.items():
        weights = {
            "w": torch.tensor([0.0, parameters]),
            "mean": torch.tensor([statistics]),
            "count": torch.tensor(client),
        }
        accumulator.add(update(client), weights, {})
    scaled = [f"{one.client} {one.scale:g}: {one.reason}" for one in accumulator.apply_filter()]
    refused = [
        f"{client} 0: {one.reason}" for client, one in accumulator.updates.items() if one.reason
    ]
    return accumulator, scaled + refused


def test_an_update_is_dropped_beyond_the_bound_of_parameters_or_statistics() -> None:
    guard = Drop(most_images=10, times_median=3.0)
    sent = {0: (1.0, 10.0), 1: (-1.0, 10.0), 2: (3.0, 10.0), 3: (3.1, 10.0), 4: (1.0, 31.0)}
    accumulator, reasons = filtered(guard, sent)
    assert accumulator.accepted == [0, 1, 2]
    assert reasons == [
        "3 0: the norm of its parameters update is 3.1, the median is 1",
        "4 0: the norm of its statistics update is 31, the median is 10",
    ]
    assert accumulator.mean()["w"].tolist() == pytest.approx([0.0, 1.0])


def test_an_update_is_clipped_to_the_bound() -> None:
    """Median 1, bound 3: the update of norm 6 is halved; the counter is not scaled."""
    guard = Clip(most_images=10, times_median=3.0)
    accumulator, reasons = filtered(guard, {0: (1.0, 0.0), 1: (1.0, 0.0), 2: (6.0, 0.0)})
    assert accumulator.accepted == [0, 1, 2]
    assert reasons == ["2 0.5: the norm of its parameters update is 6, the median is 1"]
    assert accumulator.mean()["w"].tolist() == pytest.approx([0.0, 5 / 3])
    assert accumulator.mean()["count"] == 2


def test_what_the_method_sends_in_addition_does_not_hide_the_parameters() -> None:
    """As with SCAFFOLD: control variates of norm 10, and parameters that move by 1, or by 15."""
    update_filter = UpdateFilter(Drop(most_images=10, times_median=3.0), BEFORE, {"w"})
    for client, (moved, variate) in enumerate([(1.0, 10.0), (1.0, 10.0), (15.0, 0.0), (1.0, 31.0)]):
        weights = {**BEFORE, "w": torch.tensor([0.0, moved])}
        update_filter.hold(client, weights, {"variate": torch.tensor([variate])})
    reasons = [each.reason for each in update_filter.decisions()]
    assert reasons == [
        "",
        "",
        "the norm of its parameters update is 15, the median is 1",
        "the norm of its additional update is 31, the median is 10",
    ]


def test_a_model_is_kept_as_it_was_sent() -> None:
    clients = [0, 1, 2]
    guard = Clip(most_images=10, times_median=3.0)
    accumulator = accumulator_of(clients, BEFORE, guard=guard, keep=True)
    for client, moved in zip(clients, (1.0, 1.0, 6.0), strict=True):
        accumulator.add(update(client), {**BEFORE, "w": torch.tensor([0.0, moved])}, {})
    accumulator.apply_filter()
    assert [accumulator.models[client]["w"][1] for client in clients] == [1.0, 1.0, 6.0]


def test_an_update_is_released_once_it_is_decided_on() -> None:
    update_filter = UpdateFilter(Drop(most_images=10, times_median=3.0), BEFORE, {"w"})
    sent = [torch.ones(2) for _ in range(3)]
    for client, value in enumerate(sent):
        update_filter.hold(client, {**BEFORE, "w": value}, {})
    in_use = weakref.WeakSet(sent)
    del sent, value
    assert [len(in_use) for _ in update_filter.decisions()] == [3, 2, 1]


def test_two_updates_are_too_few_to_compare() -> None:
    accumulator, reasons = filtered(
        Drop(most_images=10, times_median=3.0), {0: (1.0, 0.0), 1: (99.0, 0.0)}
    )
    assert (accumulator.accepted, reasons) == ([0, 1], [])


@pytest.mark.parametrize("fault", ["scale", "random", "flip"])
def test_dropped_clients_change_no_more_than_failed_ones(train: Train, fault: str) -> None:
    hostile = [*faulty([1], [1, 2], fault), "num_clients=6"]
    guarded = train(*hostile, "guard=drop")
    found = {(row["round"], row["client"]): row for row in rows(guarded, "clients.csv")}
    assert {key for key, row in found.items() if row["status"] != "ok"} == {("1", "1"), ("2", "1")}
    assert "the norm of its parameters update is" in found["2", "1"]["reason"]
    assert sha256(guarded) == sha256(train(*faulty([1], [1, 2], "raise"), "num_clients=6"))
    assert sha256(guarded) != sha256(train(*hostile))


@pytest.mark.usefixtures("all_digits")
def test_a_clipped_update_is_in_the_record(train: Train) -> None:
    clipped = train(*faulty([1], [1, 2], "scale"), "num_clients=6", "guard=clip")
    told = [row["event"] for row in rows(clipped, "events.csv")]
    assert len(told) == 2
    assert all(re.match(r"client 1: scaled by 0\.0\d+: the norm of its param", one) for one in told)
    assert all(row["status"] == "ok" for row in rows(clipped, "clients.csv"))
    weights = load_file(clipped / "model.safetensors")
    assert max(float(np.abs(value).max()) for value in weights.values()) < 1000


def test_a_guard_without_outliers_changes_nothing(train: Train) -> None:
    assert sha256(train("guard=drop", "guard.times_median=1000")) == sha256(train())


def test_invalid_combinations_of_guards_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"guard.times_median=1.0: must be above 1"):
        compose_experiment(["guard=drop", "guard.times_median=1.0"])
    with pytest.raises(ConfigError, match=r"guard=clip: method=scaffold needs the whole update"):
        compose_experiment(["guard=clip", "method=mixup+scaffold"])
    with pytest.raises(
        ConfigError, match=r"guard=drop: the choice of the dropped client depends on its data"
    ):
        compose_experiment(["strategy=dp_fixed", "model.norm=group", "guard=drop"])
