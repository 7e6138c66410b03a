"""A step of every method waits for no GPU: shown on PyTorch's meta device, which holds no data.

On that device an operation fails if it needs a value: `Tensor.item`, `Tensor.tolist`, a mask as an
index, a copy to the CPU. On a GPU the same operation would make the CPU wait for all work so far.
"""

import copy
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from server_app.config.composition import compose_experiment
from task.methods.base import LocalRound, Term
from task.methods.fedavg import FedAvg
from task.models.base import Output
from task.seeding import torch_generator
from task.training.loop import LocalTrainer
from task.training.losses import LossMeter
from task.training.worker import Worker
from tests.conftest import LENET, model_for, training_methods, with_slow

COMBINED = ["univarfl+fedprox", "mixup+moon+scaffold"]
METHODS = [*training_methods(), *COMBINED]
SLOW = ("fedalign", "gradaug", "stochdepth")  # a deep network
META = torch.device("meta")
ROWS = 16

pytestmark = pytest.mark.usefixtures("all_digits")


class HostTensors(TorchDispatchMode):
    """Collects the operations that use tensors of both devices.

    On a GPU, an index on the CPU is copied in each step; the meta device accepts it silently.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.mixed: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        on_host = any(value.device != META and value.dim() for value in tensors)
        if on_host and any(value.device == META for value in tensors):
            self.mixed.add(str(func))
        return func(*args, **(kwargs or {}))


@pytest.fixture(autouse=True)
def _autocast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `torch.autocast` accept the meta device, on which it changes nothing here."""
    autocast = torch.autocast
    monkeypatch.setattr(
        torch, "autocast",
        lambda kind, *words, **named: autocast(kind.replace("meta", "cpu"), *words, **named),
    )  # fmt: skip


@lru_cache(maxsize=1)  # workers of all methods would take 300 MB
def worker(method: str) -> Worker:
    words = [f"method={method}", *LENET, *model_for(method), f"batch_size={ROWS}"]
    return Worker(compose_experiment(words).local())


def on_meta(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.to(META) for name, value in values.items()}


def two_rounds(one: Worker) -> set[str]:
    """Take two steps in each of two rounds, the second with the state of the first.

    Returns:
        The operations of the steps that used tensors of the CPU beside those of the device.
    """
    model = copy.deepcopy(one.model).to(META).train()
    trainer = LocalTrainer(model, one.method, one.config)
    x = torch.empty(ROWS, *one.images[torch.arange(1)][0].shape[1:], device=META)
    y = torch.empty(ROWS, dtype=torch.int64, device=META)
    broadcast = on_meta(one.broadcast())
    state: Mapping[str, Tensor] = {}
    counts = torch.empty(10, dtype=torch.int64, device=META)
    watch = HostTensors()
    for server_round in (1, 2):
        this = LocalRound(server_round, 0, torch_generator(0, "method"), counts, state, broadcast)
        one.method.start(model, this)
        for _ in range(2):
            with watch:
                trainer.step(x, y, LossMeter())
        state = one.method.finish(model).state
    return watch.mixed


@pytest.mark.parametrize("method", with_slow(METHODS, SLOW))
def test_a_step_reads_nothing_from_the_device(method: str) -> None:
    assert two_rounds(worker(method)) == set()


@pytest.mark.parametrize(
    "read",
    [
        lambda logits: logits.sum().item(),
        lambda logits: logits[logits > 0],
        lambda logits: logits.cpu(),
        lambda logits: logits[torch.tensor([0, 1])],
    ],
    ids=["a number", "a mask", "a copy", "an index on the CPU"],
)
def test_a_step_that_does_is_found(read: Callable[[Tensor], object]) -> None:
    class Reading(FedAvg):
        def loss(self, out: Output, x: Tensor, y: Tensor) -> dict[str, Term]:
            read(out.logits)
            return {}

    one = copy.copy(worker("fedavg"))
    one.method = Reading()
    try:
        found = two_rounds(one)
    except (RuntimeError, NotImplementedError):
        return  # an operation that needs a value
    assert found
