"""Combinations of several methods."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

from server_app.config.composition import compose_experiment
from task.combination import Combination, conflict
from task.methods.base import LocalRound, Method, Outcome
from task.methods.fedalign import FedAlign
from task.methods.fedprox import FedProx
from task.methods.moon import Moon
from task.models.resnet56 import ResNet56Settings


def test_bounds_on_gradients_come_after_all_that_adds_to_them() -> None:
    """FedAlign clips at 1; FedProx adds a much larger gradient far from the global weights."""
    model = ResNet56Settings(32, "batch").build(1, 10)
    clip = FedAlign(
        alignment_weight=0.45,
        width=0.25,
        power_iterations=2,
        max_gradient_norm=1.0,
        subblock="paper",
    )
    both = Combination({"fedalign": clip, "fedprox": FedProx(proximal_weight=1.0)})
    both.start(model, LocalRound(1, 0, torch.Generator()))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
            parameter.grad = torch.zeros_like(parameter)
    both.gradients(model)
    norms = [p.grad.norm() for p in model.parameters() if p.grad is not None]
    assert torch.stack(norms).norm().item() == pytest.approx(1.0, rel=1e-4)


def test_each_member_finds_its_own_memory() -> None:
    class Keeper(Method):
        def start(self, model: nn.Module, this: LocalRound) -> None:
            self.found = dict(this.state)

        def finish(self, model: nn.Module) -> Outcome:
            return Outcome(state={"x": torch.tensor(float(id(self)))})

    one, other = Keeper(), Keeper()
    both = Combination({"one": one, "other": other})
    model = nn.Linear(1, 1)
    both.start(model, LocalRound(1, 0, torch.Generator()))
    assert one.found == other.found == {}
    state = both.finish(model).state
    assert state.keys() == {"one/x", "other/x"}
    both.start(model, LocalRound(2, 0, torch.Generator(), state=state))
    assert one.found == {"x": state["one/x"]}
    assert other.found == {"x": state["other/x"]}


def test_methods_that_share_a_setting_are_refused() -> None:
    @dataclass
    class Warm(Method):
        temperature: float

    assert conflict({"moon": Moon, "warm": Warm}) == (
        "they share the setting temperature; choose one of them"
    )


def test_batches_and_terms_add_up() -> None:
    class Half(Method):
        terms: ClassVar = ("half",)

        def batch(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            return x / 2, y

    x, _ = Combination({"a": Half(), "b": Half()}).batch(torch.tensor([4.0]), torch.tensor([0]))
    assert x.item() == 1.0
    words = ["method=univarfl+moon+mixup"]
    method = compose_experiment(words).local().local_method()
    assert [term for member in method.members() for term in member.terms] == [
        "l_con", "l_v", "l_he",
    ]  # fmt: skip
