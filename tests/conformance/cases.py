"""Each method's quantities by our code and by the references, on given tensors."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from torch import Tensor, nn

from task.config import Sgd
from task.methods.base import Contribution, LocalRound, Method
from task.methods.fedalign import lipschitz_gap
from task.methods.feddyn import FedDyn
from task.methods.fedprox import FedProx
from task.methods.feduv import classifier_deviation, uniformity
from task.methods.freeze import Freeze
from task.methods.moon import model_contrastive
from task.methods.scaffold import Scaffold
from task.methods.univarfl import classifier_variance, hyperspherical_energy
from task.optim.parameters import trained_parameters
from task.optim.sgd import LocalSgd
from tests.conformance import references

LR, STEPS, ROUNDS, ALPHA, MU, MOMENTUM = 0.1, 3, 3, 0.1, 0.5, 0.9
SHAPE = (3, 4)  # of the linear model of the methods that change steps: 3 classes, 4 features


@dataclass(frozen=True)
class Comparison:
    """One quantity of a method.

    Attributes:
        method: the method's name as papers write it.
        follows: what the reference is written from.
        quantity: what is compared.
        ours: our value.
        reference: the reference's value, in float64.
    """

    method: str
    follows: str
    quantity: str
    ours: Tensor
    reference: Tensor

    @property
    def difference(self) -> float:
        """The largest difference of an element, relative to the reference's largest element."""
        gap = (self.ours.double() - self.reference).abs().max()
        return float(gap / self.reference.abs().max())


def given(*shape: int, seed: int = 0) -> Tensor:
    """Return normal numbers that float32 holds exactly, as float64."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).double()


def terms() -> Iterator[
    tuple[str, str, str, Callable[[Tensor], Tensor], Callable[..., Tensor], Tensor]
]:
    """Yield method, source, term, our function, the reference, and the input."""
    logits, rows = given(12, 5), given(9, 6, seed=1)
    toward, away = given(9, 6, seed=2), given(9, 6, seed=3)
    narrow_in, full_in = given(4, 3, 5, 5, seed=4), given(4, 8, 5, 5, seed=5)
    narrow, full = given(4, 4, 5, 5, seed=6), given(4, 16, 5, 5, seed=7)
    yield (
        "UniVarFL",
        "paper",
        "L_V",
        classifier_variance,
        lambda x: references.hinge(x, True),
        logits,
    )
    yield (
        "UniVarFL", "paper", "L_HE", lambda x: hyperspherical_energy(x, 1e-3),
        lambda x: references.energy(x, 1e-3), rows,
    )  # fmt: skip
    yield (
        "FedUV",
        "paper",
        "L_V",
        classifier_deviation,
        lambda x: references.hinge(x, False),
        logits,
    )
    yield "FedUV", "paper", "L_U", uniformity, lambda x: references.potential(x, False), rows
    yield (
        "FedUV", "release", "L_U", lambda x: uniformity(x, "release"),
        lambda x: references.potential(x, True), rows,
    )  # fmt: skip
    yield (
        "MOON", "release", "L_con", lambda x: model_contrastive(x, toward, away, 0.5),
        lambda x: references.contrastive(x, toward, away, 0.5), rows,
    )  # fmt: skip
    yield (
        "FedAlign", "release", "L_Lip",
        lambda x: lipschitz_gap(narrow_in, x, full_in, full, 10),
        lambda x: references.lipschitz(narrow_in, x, full_in, full), narrow,
    )  # fmt: skip


def compared_terms() -> Iterator[Comparison]:
    """Yield value and gradient of each term."""
    for method, follows, name, ours, reference, at in terms():
        found = []
        for function in (ours, reference):
            x = at.clone().requires_grad_()
            value = function(x)
            value.backward()
            assert x.grad is not None
            found.append((value.detach(), x.grad))
        (value, gradient), (expected, slope) = found
        yield Comparison(method, follows, f"{name}, value", value, expected)
        yield Comparison(method, follows, f"{name}, gradient", gradient, slope)


def client_loss(weight: Tensor, client: int) -> Tensor:
    """Return a client's loss: cross-entropy of a linear model on ten rows of its own."""
    x, y = given(10, SHAPE[1], seed=10 + client), torch.arange(10) * (client + 2) % SHAPE[0]
    return F.cross_entropy(x @ weight.T, y)


def client_gradient(weight: Tensor, client: int) -> Tensor:
    """Return the gradient of `client_loss`."""
    w = weight.clone().requires_grad_()
    client_loss(w, client).backward()
    assert w.grad is not None
    return w.grad


def model_at(weight: Tensor) -> nn.Linear:
    """Return a linear model in float64."""
    model = nn.Linear(SHAPE[1], SHAPE[0], bias=False, dtype=torch.float64)
    with torch.no_grad():
        model.weight.copy_(weight)
    return model


def trained(
    method: Method, weight: Tensor, client: int, momentum: float = 0.0, **memory: Any
) -> tuple[Tensor, Any]:
    """Train a client by a method's hooks and our optimizer; return the weights and the outcome."""
    model = model_at(weight)
    optimizer = LocalSgd(
        trained_parameters(model),
        Sgd(
            lr=LR, schedule="constant", warmup_rounds=0, backbone_scale=1.0,
            momentum=momentum, keep_momentum=False,
            weight_decay=0.0, nesterov=False, max_gradient_norm=None,
        ),
    )  # fmt: skip
    method.start(model, LocalRound(1, client, torch.Generator(), torch.ones(SHAPE[0]), **memory))
    for _ in range(STEPS):
        optimizer.clear_gradients()
        client_loss(model.weight, client).backward()
        method.gradients(model)
        optimizer.step()
    return model.weight.detach(), method.finish(model)


def federated(method: Method) -> tuple[Tensor, dict[str, Tensor], Tensor]:
    """Train two clients in some rounds; return the weights, the server's state and the clients'."""
    weight = given(*SHAPE, seed=20)
    states: list[dict[str, Tensor]] = [{}, {}]
    server = method.server({"weight": weight})
    assert server is not None
    for _ in range(ROUNDS):
        broadcast = dict(server.broadcast())
        weights, extras = [], []
        for client in (0, 1):
            moved, outcome = trained(
                method, weight, client, state=states[client], broadcast=broadcast
            )
            states[client] = dict(outcome.state)
            weights.append(moved)
            extras.append(dict(outcome.extra))
        mean = (weights[0] + weights[1]) / 2
        extra = {name: (value + extras[1][name]) / 2 for name, value in extras[0].items()}
        clients = Contribution(1.0, {"weight": mean}, extra, 1.0)
        weight = server.update({"weight": weight}, {"weight": mean}, clients)["weight"]
    return weight, server.state, torch.stack([state["weight"] for state in states])


def compared_rounds() -> Iterator[Comparison]:
    """Yield what training leaves: weights, and the state of server and clients."""
    start = given(*SHAPE, seed=20)
    ours, _ = trained(FedProx(proximal_weight=MU), start, 0, MOMENTUM)
    expected = references.fedprox(client_gradient, start, LR, MOMENTUM, MU)
    yield Comparison("FedProx", "paper", "weights after three steps with momentum", ours, expected)
    for name, method, reference in (
        ("SCAFFOLD", Scaffold(), references.scaffold(client_gradient, start, LR, STEPS, ROUNDS)),
        (
            "FedDyn", FedDyn(dynamic_weight=ALPHA),
            references.feddyn(client_gradient, start, LR, STEPS, ROUNDS, ALPHA),
        ),
    ):  # fmt: skip
        weight, state, states = federated(method)
        found = (weight, state["weight"], states)
        for quantity, value in zip(reference, found, strict=True):
            after = f"{quantity} after three rounds"
            yield Comparison(name, "paper", after, value, reference[quantity])


class TwoLayers(nn.Module):
    """An encoder and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(4, 5, dtype=torch.float64)
        self.classifier = nn.Linear(5, 3, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.classifier(torch.tanh(self.encoder(x)))
        return found


def compared_freeze() -> Iterator[Comparison]:
    """Yield the classifier of Freeze, which is orthogonal, and the encoder's gradient with it."""
    model = Freeze().build(TwoLayers(), torch.Generator().manual_seed(0))
    assert isinstance(model, TwoLayers)
    weight, bias = model.classifier.weight.detach(), model.classifier.bias.detach()
    products = torch.stack([torch.stack([(a * b).sum() for b in weight]) for a in weight])
    identity = torch.eye(3, dtype=torch.float64)
    yield Comparison("Freeze", "paper", "products of class vectors", products, identity)
    x, y = given(6, 4, seed=30), torch.arange(6) % 3
    F.cross_entropy(model(x), y).backward()
    assert model.encoder.weight.grad is not None
    assert model.classifier.weight.grad is None
    hidden = torch.tanh(x @ model.encoder.weight.T + model.encoder.bias).detach()
    errors = torch.softmax(hidden @ weight.T + bias, dim=1) - F.one_hot(y, 3)
    slope = ((errors @ weight) * (1 - hidden**2)).T @ x / len(x)
    yield Comparison("Freeze", "paper", "encoder's gradient", model.encoder.weight.grad, slope)


def comparisons() -> list[Comparison]:
    """Return all comparisons."""
    return [*compared_terms(), *compared_rounds(), *compared_freeze()]
