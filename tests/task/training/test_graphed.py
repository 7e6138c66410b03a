"""Steps that are recorded once and replayed give the bits of steps that are not.

A CUDA graph repeats the kernels of a step and nothing that Python does in it. The tape of these
tests does the same on a CPU: it repeats the step's operations on the step's tensors.
"""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from server_app.config.choices import choices
from server_app.config.composition import compose_experiment
from task.config import LocalConfig
from task.errors import ConfigError
from task.methods.base import Method
from task.optim.adamw import LocalAdamW
from task.registry import component_class
from task.training import graphed
from task.training.worker import Worker
from tests.conftest import LENET, model_for, with_slow

REPLAYABLE = [name for name in choices()["method"] if component_class("method", name).replayable]
OTHERS = ("fednova", "gradaug", "mixup", "scaffold", "stochdepth")  # draw or count in each step
DEEP = ("fedalign", "gradaug", "stochdepth")  # need a residual network


class Tape(TorchDispatchMode):
    """Records operations, and repeats them into the tensors that they returned."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.operations.append((func, args, kwargs or {}, out))
        return out

    @torch.no_grad()
    def replay(self) -> None:
        for func, args, kwargs, out in self.operations:
            again = func(*args, **kwargs)
            if any(value.alias_info for value in func._schema.returns):
                continue  # a view, or the tensor that the operation has changed
            for old, new in zip(tree_leaves(out), tree_leaves(again), strict=True):
                if isinstance(old, Tensor):
                    old.copy_(new)


class TapeRecorder(graphed.Recorder):
    """Records on a tape; this takes the step, so the first replay has been done already."""

    def record(self, step: graphed.Replay) -> graphed.Replay:
        tape = Tape()
        with tape:
            step()
        taken = iter([True])

        def replay() -> None:
            if not next(taken, False):
                tape.replay()

        return replay


@pytest.fixture(autouse=True)
def _tape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphed, "Recorder", TapeRecorder)


def config(method: str, runtime: str) -> LocalConfig:
    words = [f"method={method}", *LENET, *model_for(method), "batch_size=16", "local_epochs=3"]
    return compose_experiment([*words, "num_clients=8", f"runtime={runtime}"]).local()


def trained(config: LocalConfig) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Train two rounds of one client; return all that it sends and keeps, and its losses."""
    worker = Worker(config)
    weights, broadcast = worker.initial_weights(), worker.broadcast()
    first = worker.train(weights, 1, 1, broadcast=broadcast)
    second = worker.train(first.weights, 2, 1, first.state, broadcast)
    return {**second.weights, **second.state, **second.extra}, second.losses


def equal(a: tuple[dict[str, Tensor], object], b: tuple[dict[str, Tensor], object]) -> bool:
    return a[1] == b[1] and all(torch.equal(value, b[0][name]) for name, value in a[0].items())


@pytest.mark.parametrize("method", with_slow([*REPLAYABLE, "univarfl+fedprox"], DEEP))
def test_bits_are_those_of_steps_that_are_not_recorded(method: str) -> None:
    assert equal(trained(config(method, "eager")), trained(config(method, "graphed")))


def test_so_are_those_of_adamw(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the kernel of a GPU, where the number of steps is a tensor."""
    begin = LocalAdamW.begin

    def fused(self: LocalAdamW, state: dict[str, Tensor]) -> None:
        self._fused = True
        begin(self, state)

    monkeypatch.setattr(LocalAdamW, "begin", fused)
    words = [*LENET, "method=fedprox", "batch_size=16", "num_clients=8", "optim=adamw"]
    one, two = (
        compose_experiment([*words, "local_epochs=3", "optim.keep_momentum=true", runtime]).local()
        for runtime in ("runtime=eager", "runtime=graphed")
    )
    assert equal(trained(one), trained(two))


@pytest.mark.parametrize("method", with_slow(OTHERS, DEEP))
def test_the_steps_of_all_other_methods_cannot_be_replayed(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="cannot be recorded and replayed"):
        config(method, "graphed")
    monkeypatch.setattr(component_class("method", method), "replayable", True)
    assert not equal(trained(config(method, "eager")), trained(config(method, "graphed")))


def test_a_package_must_say_that_a_step_can_be_replayed() -> None:
    assert not Method.replayable


@pytest.mark.parametrize("augmentation", ["none", "crop_flip", "resized_crop"])
def test_each_batch_has_its_own_images_and_augmentation(augmentation: str) -> None:
    one, two = (
        compose_experiment(
            [*LENET, "batch_size=16", "local_epochs=2", f"augmentation={augmentation}", runtime]
        ).local()
        for runtime in ("runtime=eager", "runtime=graphed")
    )
    assert equal(trained(one), trained(two))


def test_most_steps_are_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []

    class Counted(TapeRecorder):
        def first(self, step: graphed.Replay) -> None:
            taken.append("first")
            super().first(step)

        def record(self, step: graphed.Replay) -> graphed.Replay:
            taken.append("recorded")
            return super().record(step)

    monkeypatch.setattr(graphed, "Recorder", Counted)
    trained(config("fedavg", "graphed"))
    kinds, rounds = 2, 2  # of a client's batches: full ones, and the last one
    assert taken == kinds * rounds * ["first", "recorded"]
