"""Runs with ``update=bfloat16`` and ``update=int8``: bits, bytes, feedback, hostile sites."""

import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from client_app.rounded_update import ERROR, rounded_result, without_error
from server_app.config.composition import compose_experiment
from server_app.config.resuming import whole_words
from server_app.runs.records.run_record import read_record
from task.errors import ConfigError
from task.protocol.number_formats import STEP
from task.training.loop import LocalResult
from task.training.worker import Worker
from tests.conftest import SMALL, Train, sha256
from tests.hostile.draft import Case, tensors
from tests.hostile.federation import HostileGrid, images_in, reasons, trained
from tests.interruption import ended_in
from univarfl.engines.train import train_experiment

INT8 = ("update=int8", "method=scaffold")


def test_the_bits_do_not_depend_on_who_adds_up(train: Train) -> None:
    one = sha256(train(*INT8, "federation.workers=1"))
    assert sha256(train(*INT8, "federation.workers=3")) == one
    assert sha256(train(*INT8, "guard=drop")) == one  # sends each update, and drops none
    assert sha256(train(*INT8, "update.error_feedback=false")) != one
    assert sha256(train("method=scaffold")) != one


def test_a_resumed_run_has_the_same_bits(train: Train) -> None:
    words = ("update=bfloat16", "rounds=3")
    whole = train(*words)
    with ended_in(3), pytest.raises(KeyboardInterrupt):
        train(*words, "run_id=ended")
    resumed = whole_words([f"resume={whole.parent / 'ended'}"])
    assert sha256(train_experiment(compose_experiment(resumed), resumed)) == sha256(whole)


@pytest.mark.parametrize(("name", "size"), [("bfloat16", 2), ("int8", 1)])
def test_the_record_has_the_bytes(train: Train, name: str, size: int) -> None:
    run = train(f"update={name}", "method=scaffold", "rounds=1")
    record = read_record(run)
    parts = load_file(run / "model.safetensors").values()  # LeNet has no batch norm
    numbers, steps = sum(part.numel() for part in parts), len(parts) * (name == "int8")
    assert record.request_bytes == 2 * 4 * numbers  # with SCAFFOLD's control variate
    assert record.reply_bytes == size * numbers + 4 * steps + 4 * numbers


def test_what_rounding_changes_is_sent_later() -> None:
    """Over many rounds of the same change, the mean of what is sent comes to it."""
    worker = Worker(compose_experiment([*SMALL, "update=int8", "method=fedavg"]).local())
    start = worker.initial_weights()
    moved = {
        name: value + 1e-3 * torch.randn(value.shape, generator=torch.Generator().manual_seed(1))
        for name, value in start.items()
    }
    sent = dict.fromkeys(start, torch.zeros(()))
    state: dict[str, Tensor] = {"kept by the method": torch.ones(1)}
    for _ in range(50):
        own, error = without_error(state)
        assert list(own) == ["kept by the method"]
        result = rounded_result(LocalResult(moved, 5, {}, dict(own), {}), start, error, worker)
        state = result.state
        sent = {name: sent[name] + result.weights[name] - start[name] for name in start}
    for name, value in moved.items():
        exact = value - start[name]
        last, mean = result.weights[name] - start[name], sent[name] / 50
        assert (mean - exact).abs().max() < 0.1 * (last - exact).abs().max()
        assert ERROR + name in state


def test_without_feedback_clients_keep_nothing() -> None:
    words = [*SMALL, "update=int8", "method=fedavg"]
    assert compose_experiment(words).models_kept == 1
    assert compose_experiment([*words, "update.error_feedback=false"]).models_kept == 0


def test_a_change_that_is_not_finite_is_a_failed_training() -> None:
    worker = Worker(compose_experiment([*SMALL, "update=bfloat16", "method=fedavg"]).local())
    start = worker.initial_weights()
    broken = {name: torch.full_like(value, 3.4e38) for name, value in start.items()}
    with pytest.raises(Exception, match="the rounded update is not finite"):
        rounded_result(LocalResult(broken, 5, {}, {}, {}), start, {}, worker)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["secure=masked"], "update=int8: does not fit secure=masked: masks add up"),
        (["secure=rounded"], "update=int8: does not fit secure=rounded: masks add up"),
        (["method=ridge", "rounds=1"], "update=int8: has no effect with method=ridge"),
        (["strategy=dp_client_fixed", "model=lenet"], "update=int8: rounding can make an update"),
        (["strategy=fedbuff", "clock=virtual", "participation=available"],
         "update=int8: is read with the weights of one round"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(words: list[str], reason: str) -> None:
    with pytest.raises(ConfigError) as error:
        compose_experiment(["update=int8", *words])
    assert str(error.value).startswith(reason)
    assert "; add update=float32" in str(error.value) or "; leave it out" in str(error.value)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("privacy=example", "privacy.reproducible=true"), marks=pytest.mark.slow),
        ("strategy=dp_fixed",),
    ],
)
def test_noise_that_is_added_before_and_after_fits(train: Train, words: tuple[str, ...]) -> None:
    run = train("update=int8", "method=fedavg", "rounds=1", *words)
    privacy = read_record(run).privacy
    assert privacy
    assert privacy.epsilon is not None


def first_number(found: dict[str, Tensor]) -> str:
    """The first entry that is rounded."""
    return min(name for name, value in found.items() if value.dtype == torch.int8)


@pytest.mark.slow
def test_hostile_sites_change_nothing_and_an_honest_one_sends_a_quarter(tmp_path: Path) -> None:
    cases = (
        Case("a step that is infinite",
             tensors(lambda found: {**found, STEP + first_number(found): torch.tensor(math.inf)}),
             "is not finite"),
        Case("a step of 1e38",
             tensors(lambda found: {**found, STEP + first_number(found): torch.tensor(1e38)}),
             "is not finite"),
        Case("a step of 1e30",
             tensors(lambda found: {**found, STEP + first_number(found): torch.tensor(1e30)}),
             "has numbers beyond 65,536"),
        Case("float32", tensors(lambda found: {k: v.float() for k, v in found.items()}), "is "),
        Case("a counter in place of a step",
             tensors(lambda found: {**found, STEP + first_number(found): torch.tensor(1)}),
             "is int64(), not float32()"),
        Case("no step",
             tensors(lambda found: {k: v for k, v in found.items() if not k.startswith(STEP)}),
             "other names"),
    )  # fmt: skip
    images = images_in(tmp_path)
    silent = Case("says that it failed", lambda draft: setattr(draft, "reason", "no comment"), "")
    honest = Case("honest", lambda draft: None, "")
    words = ("update=int8",)
    without = trained(HostileGrid(images, tmp_path, [silent], [silent]), tmp_path, "a", 1, *words)
    grid = HostileGrid(images, tmp_path, cases * 2, [silent])
    beside = trained(grid, tmp_path, "b", 1, *words)
    grid.close()
    told = reasons(beside)
    checked = 0
    for cost in grid.costs:
        if cost.kind == "training":
            assert any(cost.case.outcome in text for text in told["training", cost.site, 1])
            checked += 1
    assert checked == 10
    assert sha256(beside) == sha256(without)
    other = HostileGrid(images, tmp_path, [honest], [silent])
    run = trained(other, tmp_path, "c", 1, *words)
    other.close()
    reply = read_record(run).reply_bytes
    assert reply
    for cost in other.costs:
        if cost.kind == "training":
            assert reply < cost.sent < 1.05 * reply
