"""Updates much longer than their peers are dropped or shortened, and the record says so."""

import re

import numpy as np
import pytest
from safetensors.numpy import load_file

from server_app.composition import compose_experiment
from server_app.guards.clip import Clip
from server_app.guards.drop import Drop
from server_app.intake import Intake
from task.errors import ConfigError
from tests.conftest import Train, faulty, rows, sha256

pytestmark = pytest.mark.usefixtures("parts")

BEFORE = {"w": np.zeros(2, np.float32), "mean": np.zeros(1, np.float32), "count": np.array(0)}


def settled(guard: Drop | Clip, sent: dict[int, tuple[float, float]]) -> tuple[Intake, list[str]]:
    """What becomes of updates that move the parameters and the statistics so far."""
    alike = dict.fromkeys(sent, 1 / len(sent))
    intake = Intake(BEFORE, {}, alike, dict.fromkeys(sent, 5), guard, {"w"}, each=False, mean=True)
    for client, (parameters, statistics) in sent.items():
        weights = {
            "w": np.array([0.0, parameters], np.float32),
            "mean": np.array([statistics], np.float32),
            "count": np.array(client),
        }
        intake.take(client, weights, {})
    found = intake.settle()
    return intake, [f"{client} {share:g}: {reason}" for client, (share, reason) in found.items()]


def test_it_is_dropped_beyond_the_bound_of_parameters_or_of_statistics() -> None:
    guard = Drop(most_images=10, times_median=3.0)
    sent = {0: (1.0, 10.0), 1: (-1.0, 10.0), 2: (3.0, 10.0), 3: (3.1, 10.0), 4: (1.0, 31.0)}
    intake, reasons = settled(guard, sent)
    assert intake.accepted == [0, 1, 2]
    assert reasons == [
        "3 0: its parameters moved by 3.1, the median is 1",
        "4 0: its statistics moved by 31, the median is 10",
    ]
    assert intake.mean()["w"] == pytest.approx([0.0, 1.0])


def test_it_is_shortened_to_the_bound() -> None:
    """Median 1, bound 3: the update of 6 counts by half, in all that it sends but the counter."""
    guard = Clip(most_images=10, times_median=3.0)
    intake, reasons = settled(guard, {0: (1.0, 0.0), 1: (1.0, 0.0), 2: (6.0, 0.0)})
    assert intake.accepted == [0, 1, 2]
    assert reasons == ["2 0.5: its parameters moved by 6, the median is 1"]
    assert intake.mean()["w"] == pytest.approx([0.0, 5 / 3])
    assert intake.mean()["count"] == 2


def test_a_model_is_kept_as_it_was_sent() -> None:
    alike = dict.fromkeys(range(3), 1 / 3)
    guard = Clip(most_images=10, times_median=3.0)
    intake = Intake(BEFORE, {}, alike, dict.fromkeys(alike, 5), guard, {"w"}, False, True, True)
    for client, moved in enumerate((1.0, 1.0, 6.0)):
        intake.take(client, {**BEFORE, "w": np.array([0.0, moved], np.float32)}, {})
    intake.settle()
    assert [intake.models[client]["w"][1] for client in alike] == [1.0, 1.0, 6.0]


def test_two_have_nobody_to_be_compared_with() -> None:
    intake, reasons = settled(
        Drop(most_images=10, times_median=3.0), {0: (1.0, 0.0), 1: (99.0, 0.0)}
    )
    assert (intake.accepted, reasons) == ([0, 1], [])


@pytest.mark.parametrize("fault", ["scale", "random", "flip"])
def test_a_run_ends_as_if_the_hostile_ones_had_failed(train: Train, fault: str) -> None:
    hostile = [*faulty([1], [1, 2], fault), "num_clients=6"]
    guarded = train(*hostile, "guard=drop")
    found = {(row["round"], row["client"]): row for row in rows(guarded, "clients.csv")}
    assert {key for key, row in found.items() if row["status"] != "ok"} == {("1", "1"), ("2", "1")}
    assert "its parameters moved by" in found["2", "1"]["reason"]
    assert sha256(guarded) == sha256(train(*faulty([1], [1, 2], "raise"), "num_clients=6"))
    assert sha256(guarded) != sha256(train(*hostile))


def test_what_was_shortened_is_in_the_record(train: Train) -> None:
    clipped = train(*faulty([1], [1, 2], "scale"), "num_clients=6", "guard=clip")
    told = [row["event"] for row in rows(clipped, "events.csv")]
    assert len(told) == 2
    assert all(re.match(r"client 1: shortened to 0\.0\d+ of it: its param", one) for one in told)
    assert all(row["status"] == "ok" for row in rows(clipped, "clients.csv"))
    weights = load_file(clipped / "model.safetensors")
    assert max(float(np.abs(value).max()) for value in weights.values()) < 1000


def test_a_guard_that_finds_nothing_changes_nothing(train: Train) -> None:
    assert sha256(train("guard=drop", "guard.times_median=1000")) == sha256(train())


def test_bounds_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"guard.times_median=1.0: must be above 1"):
        compose_experiment(["guard=drop", "guard.times_median=1.0"])
    with pytest.raises(ConfigError, match=r"guard=clip: method=scaffold has clients remember"):
        compose_experiment(["guard=clip", "method=mixup+scaffold"])
    with pytest.raises(ConfigError, match=r"guard=drop: who is dropped would tell of the data"):
        compose_experiment(["strategy=dp_fixed", "model.norm=group", "guard=drop"])
