"""Combinations of several methods."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

from server_app.config.composition import compose_experiment
from task.combination import Combination
from task.errors import ConfigError
from task.methods.base import LocalRound, Method, Outcome
from task.methods.families.conflicts import conflict
from task.methods.fedalign import FedAlign
from task.methods.fedetf import FedETF
from task.methods.fedlesam import FedLESAM
from task.methods.fednova import FedNova
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
    both.start(model, LocalRound(1, 0, torch.Generator(), torch.ones(2)))
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
    both.start(model, LocalRound(1, 0, torch.Generator(), torch.ones(2)))
    assert one.found == other.found == {}
    state = both.finish(model).state
    assert state.keys() == {"one/x", "other/x"}
    both.start(model, LocalRound(2, 0, torch.Generator(), torch.ones(2), state=state))
    assert one.found == {"x": state["one/x"]}
    assert other.found == {"x": state["other/x"]}


def test_a_method_that_changes_what_is_sent_finishes_last() -> None:
    """MOON keeps the trained model, not the weights that FedNova sends."""
    model = ResNet56Settings(32, "batch").build(1, 10)
    moon = Moon(contrastive_weight=1.0, temperature=0.5)
    both = Combination({"fednova": FedNova(), "moon": moon})
    both.build(model, torch.Generator())
    both.start(model, LocalRound(1, 0, torch.Generator(), torch.ones(2)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
            parameter.grad = torch.zeros_like(parameter)
    trained = model.classifier.weight.clone()
    both.gradients(model)
    kept = both.finish(model).state["moon/classifier.weight"]
    assert torch.equal(kept, trained)
    assert not torch.equal(model.classifier.weight, trained)


def test_perturbed_weights_are_restored_before_another_member_sees_them() -> None:
    """FedProx adds nothing at the global weights, though FedLESAM takes the gradient elsewhere."""
    model = nn.Linear(2, 2)
    both = Combination({"fedprox": FedProx(proximal_weight=1.0), "fedlesam": FedLESAM(radius=0.5)})
    previous = {f"fedlesam/{name}": value + 1 for name, value in model.state_dict().items()}
    both.start(model, LocalRound(2, 0, torch.Generator(), torch.ones(2), state=previous))
    before = model.weight.clone()
    both.batch(torch.ones(1, 2), torch.zeros(1, dtype=torch.int64))
    assert not torch.equal(model.weight, before)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    both.gradients(model)
    assert torch.equal(model.weight, before)
    assert model.weight.grad is not None
    assert not model.weight.grad.any()


def test_a_member_that_perturbs_does_so_after_the_others() -> None:
    order: list[str] = []

    class Plain(Method):
        def batch(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            order.append(type(self).__name__)
            return x, y

    class Perturbing(Plain):
        perturbs: ClassVar = True

    both = Combination({"perturbing": Perturbing(), "plain": Plain()})
    both.batch(torch.zeros(1), torch.zeros(1))
    assert order == ["Plain", "Perturbing"]


def test_a_batch_in_two_parts_is_perturbed_once() -> None:
    model, method = nn.Linear(2, 2), FedLESAM(radius=0.5)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    previous = {name: value + 1 for name, value in before.items()}
    method.start(model, LocalRound(2, 0, torch.Generator(), torch.ones(2), state=previous))
    for _ in range(2):
        method.batch(torch.ones(1, 2), torch.zeros(1, dtype=torch.int64))
    moved = [value - before[name] for name, value in model.state_dict().items()]
    assert torch.cat([value.flatten() for value in moved]).norm() == pytest.approx(0.5, rel=1e-5)
    for _ in range(2):  # the second time no part of a batch was drawn
        method.gradients(model)
        assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_mixed_labels_and_a_method_that_needs_classes_are_refused() -> None:
    with pytest.raises(ConfigError, match="mixup mixes labels, and fedntd needs one class"):
        compose_experiment(["method=mixup+fedntd"])


def test_two_methods_that_set_the_classifier_are_refused() -> None:
    with pytest.raises(ConfigError, match="more than one of them sets the classifier"):
        compose_experiment(["method=freeze+fedetf"])


@pytest.mark.parametrize(
    ("methods", "reason"),
    [
        ("fedlesam+fedsol", "more than one of them perturbs the weights"),
        ("fedlc+fedrs", "more than one of them changes the logits of the cross-entropy"),
        ("fedlesam+fedper", "fedper keeps a part of the model with the client, and fedlesam uses"),
        ("fedalign+fedlc", "fedlc changes the logits of the cross-entropy, and fedalign weighs"),
    ],
)
def test_methods_that_would_undo_each_other_are_refused(methods: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        compose_experiment([f"method={methods}", "model=resnet56"])


def test_a_frame_narrower_than_the_classes_is_refused() -> None:
    method = FedETF(frame_width=8, first_scale=1.0)
    with pytest.raises(ConfigError, match="must be at least the number of classes, 10"):
        method.build(ResNet56Settings(32, "batch").build(1, 10), torch.Generator())


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
