"""Values of each method's quantities on small given tensors, from a source outside this project.

The numbers were computed in float64, most by running the release's own function on these tensors.
They have six digits after the point.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from torch import Tensor, nn

from task.config import Sgd
from task.methods.base import Contribution, LocalRound, Method, Outcome
from task.methods.feddecorr import FedDecorr
from task.methods.fedetf import frame_from, frame_logits
from task.methods.fedexp import FedExP
from task.methods.fedlc import lowered
from task.methods.fedlesam import FedLESAM
from task.methods.fednova import FedNova, StepLength
from task.methods.fedntd import not_true_distillation
from task.methods.fedper import FedPer
from task.methods.fedrcl import contrast, penalty, similarities
from task.methods.fedrep import FedRep
from task.methods.fedrs import by_count, by_presence
from task.methods.fedsol import FedSOL
from task.methods.fedvls import (
    FedVLS,
    released_suppression,
    suppression,
    vacant_class_distillation,
)
from task.models.base import Encoding, Output
from task.models.layers.position import Position
from task.optim.parameters import trained_parameters, without_gradients
from task.optim.sgd import LocalSgd
from task.training.losses import divergence


@dataclass(frozen=True)
class Golden:
    """One quantity of a method.

    Attributes:
        method: the method's name as papers write it.
        follows: what the value follows: the paper's equation, or a release.
        quantity: what is compared.
        ours: our values.
        expected: the values from outside.
    """

    method: str
    follows: str
    quantity: str
    ours: Sequence[float]
    expected: Sequence[float]

    @property
    def difference(self) -> float:
        """The largest difference."""
        pairs = zip(self.ours, self.expected, strict=True)
        return max(abs(one - other) for one, other in pairs)


def rows(*values: Sequence[float]) -> Tensor:
    """Return a matrix in float64."""
    return torch.tensor(values, dtype=torch.float64)


LOGITS = rows([2.0, 0.5, -1.0, 0.0], [0.1, 1.2, 0.3, -0.7], [-0.5, 0.4, 0.9, 1.5])
TOWARD = rows([1.0, 0.8, -0.2, 0.3], [0.5, 0.6, 0.1, -0.4], [-0.1, 0.7, 0.2, 0.6])
LABELS, COUNTS = torch.tensor([0, 1, 1]), torch.tensor([6, 2, 0, 0])
FEATURES = rows([1.0, 0.5, -0.3], [0.2, -0.4, 0.8], [-0.6, 0.9, 0.1], [0.4, 0.3, -0.7])
IMAGES = rows([1.0, 0.5], [-0.3, 0.8], [0.6, -1.0])
WEIGHT, BIAS = rows([0.5, -0.2], [0.1, 0.4]), torch.tensor([0.05, -0.1], dtype=torch.float64)
SGD = Sgd(
    lr=0.1, schedule="constant", warmup_rounds=0, backbone_scale=1.0, momentum=0.5,
    weight_decay=0.0, keep_momentum=False, nesterov=False, max_gradient_norm=None,
)  # fmt: skip
TEACHER = rows([0.3, 0.1], [0.2, 0.2])


def with_slope(
    function: Callable[[Tensor], Tensor], at: Tensor, *places: tuple[int, int]
) -> list[float]:
    """Return a function's value and entries of its gradient."""
    x = at.clone().requires_grad_()
    value = function(x)
    value.backward()
    assert x.grad is not None
    return [value.item(), *(x.grad[place].item() for place in places)]


def decorrelation(form: Any) -> Callable[[Tensor], Tensor]:
    """Return the term of FedDecorr as a function of the features."""
    method = FedDecorr(decorrelation_weight=0.1, correlation=form)
    none = torch.zeros(0)
    return lambda features: method.loss(Output(none, features, none), none, none)["l_decorr"].value


def entropy_of(change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Return the cross-entropy of changed logits."""
    return lambda logits: F.cross_entropy(change(logits), LABELS)


def terms() -> Iterator[Golden]:
    """Yield values and gradients of terms and of changed cross-entropies."""
    yield Golden(
        "FedDecorr", "release", "L_decorr, gradient at 0,0 and 2,1",
        with_slope(decorrelation("release"), FEATURES, (0, 0), (2, 1)),
        [0.378671, -0.145244, -0.105093],
    )  # fmt: skip
    yield Golden(
        "FedDecorr", "equation", "L_decorr, gradient at 0,0",
        with_slope(decorrelation("paper"), FEATURES, (0, 0)), [0.445532, -0.043035],
    )  # fmt: skip
    for tau, release, expected in (
        (1.0, "FL-bench", [0.304346, -0.051403, 0.0]),
        (0.1, "FedDecorr's release", [0.279070, -0.059811, 0.0]),
    ):
        change = entropy_of(lambda logits, tau=tau: lowered(logits, COUNTS, tau))  # type: ignore[misc]
        found = with_slope(change, LOGITS, (0, 0), (2, 3))
        yield Golden("FedLC", release, f"loss and gradient, tau {tau}", found, expected)
    all_classes = torch.tensor([6, 2, 1, 3])
    yield Golden(
        "FedLC", "FL-bench", "loss and gradient, every class present",
        with_slope(entropy_of(lambda logits: lowered(logits, all_classes, 1.0)), LOGITS, (0, 0)),
        [0.919712, -0.084010],
    )  # fmt: skip
    present, counted = by_presence(COUNTS, 0.5).double(), by_count(COUNTS, 0.5)
    yield Golden(
        "FedRS", "FedDecorr's release", "loss and gradient, alpha 0.5",
        with_slope(entropy_of(lambda logits: logits * present), LOGITS, (0, 0), (2, 3)),
        [0.786437, -0.101940, 0.061005],
    )  # fmt: skip
    yield Golden(
        "FedRS", "release", "loss and gradient, alpha 0.5, by number of images",
        with_slope(entropy_of(lambda logits: logits * counted), LOGITS, (0, 1)),
        [0.881577, 0.029846],
    )  # fmt: skip
    for tau, expected in ((1.0, [0.054341, 0.013356]), (3.0, [0.069244, 0.017496])):
        found = with_slope(
            lambda logits, tau=tau: not_true_distillation(logits, TOWARD, LABELS, tau),  # type: ignore[misc]
            LOGITS, (0, 1),
        )  # fmt: skip
        yield Golden("FedNTD", "release", f"L_ntd and gradient, tau {tau}", found, expected)


def terms_of_fedetf() -> Iterator[Golden]:
    """Yield the loss of FedETF at several scales."""
    frame = frame_from(torch.eye(4, dtype=torch.float64)[:, :3])
    projected = rows([1, 0.5, -0.3, 0.2], [0.2, -0.4, 0.8, 0.1], [-0.6, 0.9, 0.1, 0.5])
    labels, shift = torch.tensor([0, 2, 1]), torch.tensor([6.0, 2.0, 1.0]).double().log()
    yield Golden("FedETF", "release", "first row of the frame", frame[0].tolist(),
                 [0.816497, -0.408248, -0.408248])  # fmt: skip
    for value, expected in (
        (2.0, [0.388745, -0.046546, -0.261285]),
        (10.0, [0.001341, -0.004016, -0.000903]),
        (1.0, [0.751009, -0.036044, -0.480082]),
    ):
        scale = torch.tensor([value], dtype=torch.float64, requires_grad=True)
        at = projected.clone().requires_grad_()
        loss = F.cross_entropy(frame_logits(at, frame, scale) + shift, labels)
        loss.backward()
        assert at.grad is not None
        assert scale.grad is not None
        found = [loss.item(), at.grad[0, 0].item(), scale.grad.item()]
        yield Golden("FedETF", "release", f"loss and gradients, s {value:g}", found, expected)


def terms_of_fedrcl() -> Iterator[Golden]:
    """Yield the two terms of FedRCL at one level."""
    level = rows([1.0, 0.2, 0.0], [0.9, 0.5, 0.1], [0.1, 1.0, 0.3], [-0.2, 0.4, 1.0])
    pairs, alone = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 0, 0, 1])
    yield Golden(
        "FedRCL", "release", "L_scl, gradient at 2,0",
        with_slope(lambda at: contrast(similarities(at), pairs, 0.05, 2), level, (2, 0)),
        [0.127937, 2.014929],
    )  # fmt: skip
    yield Golden(
        "FedRCL", "release", "L_scl, a class of one image",
        [contrast(similarities(level), alone, 0.05, 2).item()], [1.557593],
    )  # fmt: skip
    yield Golden(
        "FedRCL", "release", "L_pen, gradient at 0,1",
        with_slope(lambda at: penalty(similarities(at), pairs, 0.05, 0.7), level, (0, 1)),
        [0.151234, 0.761310],
    )  # fmt: skip


def terms_of_fedvls() -> Iterator[Golden]:
    """Yield the three parts of FedVLS."""
    shares = COUNTS / COUNTS.sum().double()
    method = FedVLS(
        calibration_weight=1.0, distillation_weight=0.1, suppression_weight=0.005,
        suppression="release",
    )  # fmt: skip
    model = method.build(Linear(WEIGHT), torch.Generator())
    method.start(model, LocalRound(1, 0, torch.Generator(), COUNTS.double()))
    yield Golden(
        "FedVLS", "release", "calibrated loss and gradient",
        with_slope(entropy_of(method.logits), LOGITS, (0, 1)), [0.520523, 0.023076],
    )  # fmt: skip
    yield Golden(
        "FedVLS", "release", "L_dis and gradient",
        with_slope(
            lambda logits: vacant_class_distillation(logits, TOWARD, shares == 0), LOGITS, (0, 2)
        ),
        [0.020215, -0.036200],
    )  # fmt: skip
    yield Golden(
        "FedVLS", "release", "0.005 L_logit and gradient",
        with_slope(
            lambda logits: 0.005 * released_suppression(logits, LABELS, shares), LOGITS, (0, 1)
        ),
        [-0.002182, 0.000565],
    )  # fmt: skip
    yield Golden(
        "FedVLS", "equation", "L_logit and gradient",
        with_slope(lambda logits: suppression(logits, LABELS, shares), LOGITS, (0, 1)),
        [-0.570496, 0.25],
    )  # fmt: skip


class Linear(nn.Module):
    """A linear model in float64 whose output is that of a network."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.clone())
        self.bias = None if bias is None else nn.Parameter(bias.clone())

    def forward(self, x: Tensor) -> Output:
        return Output(F.linear(x, self.weight, self.bias), x, x)


def this_round(**more: Any) -> LocalRound:
    """Return a round of one client."""
    return LocalRound(1, 0, torch.Generator(), torch.tensor([1, 2]), **more)


def step_at(method: Method, model: Linear) -> tuple[float, Tensor]:
    """Return the loss that a step sees, and the gradient of the weight; the model stays."""
    x, y = method.batch(IMAGES, LABELS)
    loss = F.cross_entropy(model(x).logits, y)
    model.zero_grad()
    loss.backward()
    method.gradients(model)
    assert model.weight.grad is not None
    return loss.item(), model.weight.grad


def perturbed_steps() -> Iterator[Golden]:
    """Yield the losses and gradients of the methods that perturb the weights."""
    model = Linear(WEIGHT, BIAS)
    move = torch.tensor([0.03, -0.04, 0, 0.12, -0.05, 0.02], dtype=torch.float64)
    previous = {"weight": WEIGHT - move[:4].reshape(2, 2), "bias": BIAS - move[4:]}
    lesam = FedLESAM(radius=0.1)
    lesam.start(model, this_round(state=previous))
    loss, slope = step_at(lesam, model)
    assert model.bias is not None
    assert model.bias.grad is not None
    found = [loss, slope[0, 0].item(), model.bias.grad[0].item()]
    yield Golden(
        "FedLESAM", "equation", "loss and gradients at w + e", found,
        [0.781070, -0.038738, 0.240520],
    )  # fmt: skip
    at = WEIGHT.clone().requires_grad_()
    value = divergence(F.linear(IMAGES, at) / 3, F.linear(IMAGES, TEACHER) / 3)
    (gradient,) = torch.autograd.grad(value, at)
    found = [value.item(), *gradient[0].tolist()]
    yield Golden("FedSOL", "release", "P and gradient", found, [0.003251, 0.005566, -0.009630])
    for adaptive, expected in (
        (False, [1.107681, -0.344909, 0.498004, -0.165509]),
        (True, [0.980304, -0.317914, 0.499800, -0.168209]),
    ):
        student = Linear(TEACHER)
        method = FedSOL(radius=1.0, temperature=3.0, adaptive=adaptive)
        method.build(student, torch.Generator())
        method.start(student, this_round())
        with torch.no_grad():
            student.weight.copy_(WEIGHT)
        loss, slope = step_at(method, student)
        moved = (student.weight - 0.1 * slope)[0].tolist()
        form = "adaptive" if adaptive else "fixed"
        yield Golden(
            "FedSOL", "release", f"loss, gradient and weights after a step, {form}",
            [loss, slope[0, 1].item(), *moved], expected,
        )  # fmt: skip


class Point(nn.Module):
    """A vector of parameters."""

    def __init__(self, values: Sequence[float]) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor(values, dtype=torch.float64))


def sent(
    method: Method, start: Sequence[float], trained: Sequence[float], steps: int, **more: Any
) -> tuple[Tensor, Outcome]:
    """Return what a client sends whose model has moved from `start` to `trained`."""
    model = Point(start)
    method.start(model, this_round(**more))
    for _ in range(steps):
        method.gradients(model)
    with torch.no_grad():
        model.w.copy_(torch.tensor(trained, dtype=torch.float64))
    outcome = method.finish(model)
    return model.w.detach(), outcome


def server_step(
    method: Method,
    start: Sequence[float],
    clients: Sequence[tuple[Sequence[float], int]],
    shares: Sequence[float],
    momentum: float = 0.0,
) -> list[float]:
    """Return the global weights after a round.

    Args:
        method: with a server update.
        start: the global weights before.
        clients: of each client, the trained weights and the number of steps.
        shares: of each client, its weight in the mean.
        momentum: of the clients' optimizer.
    """
    before = {"w": torch.tensor(start, dtype=torch.float64)}
    server = method.server(before)
    assert server is not None
    given = dict(server.broadcast())
    found = [
        sent(method, start, trained, steps, broadcast=given, momentum=momentum)
        for trained, steps in clients
    ]
    mean = sum(share * weights for share, (weights, _) in zip(shares, found, strict=True))
    assert isinstance(mean, Tensor)
    extra = {
        name: torch.stack(
            [
                s * outcome.extra[name].double()
                for s, (_, outcome) in zip(shares, found, strict=True)
            ]
        ).sum(dim=0)
        for name in given
    }
    after = {"w": mean}
    return server.update(before, after, Contribution(1.0, after, extra, 1.0))["w"].tolist()


def server_steps() -> Iterator[Golden]:
    """Yield the server's steps."""
    start, moved = [1.0, 0.0, -1.0], [([1.4, -0.1, -1.0], 1), ([0.8, 0.3, -0.9], 1)]
    exp = FedExP(step_epsilon=1e-3)
    found = server_step(exp, start, moved, [0.5, 0.5])
    yield Golden("FedExP", "paper", "weights, equal shares", found, [1.329787, 0.329787, -0.835106])
    eta = 1.267057
    yield Golden(
        "FedExP", "FedDecorr's release", "weights, shares 3 to 1",
        server_step(exp, start, moved, [0.75, 0.25]),
        [1.0 + eta * 0.25, 0.0, -1.0 + eta * 0.025],
    )  # fmt: skip
    lengths = []
    for steps in (2, 3):
        length = StepLength(0.9, nesterov=False)
        for _ in range(steps):
            length.step()
        lengths.append(length.total)
    yield Golden("FedNova", "release", "a_i at momentum 0.9", lengths, [2.9, 5.61])
    of_nova = [([0.4, -0.2], 3), ([1.2, -0.9], 2)]
    for momentum, expected in ((0.0, [0.656250, -0.431250]), (0.9, [0.689388, -0.472259])):
        found = server_step(FedNova(), [1.0, -0.5], of_nova, [0.75, 0.25], momentum)
        yield Golden("FedNova", "NIID-Bench", f"weights, momentum {momentum}", found, expected)


class TwoLayers(nn.Module):
    """A body and a classifier in float64, both linear and without bias."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(2, 2, bias=False, dtype=torch.float64)
        self.classifier = nn.Linear(2, 2, bias=False, dtype=torch.float64)
        with torch.no_grad():
            self.body.weight.copy_(TEACHER)
            self.classifier.weight.copy_(WEIGHT)


def trained_in_parts(method: Method, epochs: int) -> list[float]:
    """Return the first rows of both layers after so many epochs of one step with momentum."""
    model = TwoLayers()
    optimizer = LocalSgd(trained_parameters(model), SGD)
    for epoch in range(epochs):
        optimizer.clear_gradients()
        with without_gradients(method.frozen(model, epoch, epochs)):
            F.cross_entropy(model.classifier(model.body(IMAGES)), LABELS).backward()
        optimizer.step()
    return [*model.body.weight[0].tolist(), *model.classifier.weight[0].tolist()]


def personal_parts() -> Iterator[Golden]:
    """Yield the layers after the steps of the methods whose clients keep a classifier."""
    head = [0.504725, -0.195127]
    yield Golden(
        "FedPer", "equation", "both layers after a step", trained_in_parts(FedPer(), 1),
        [0.304576, 0.105170, *head],
    )  # fmt: skip
    yield Golden(
        "FedRep", "release", "both layers after a step of each, momentum 0.5",
        trained_in_parts(FedRep(body_epochs=1), 2), [0.304664, 0.105279, *head],
    )  # fmt: skip


def positions() -> Iterator[Golden]:
    """Yield position encodings, and a layer's output with one."""
    for kind, frequency, amplitude, width, expected in (
        ("multiply", 1, 0.05, 4, [1, 1.05, 1, 0.95]),
        ("add", 1, 0.15, 4, [0, 0.15, 0, -0.15]),
        ("multiply", 4, 0.1, 16, [1, 1.1, 1, 0.9] * 4),
    ):
        found = Position(width, Encoding(kind, frequency, amplitude)).vector.tolist()  # type: ignore[arg-type]
        yield Golden("PAN", "release", f"{kind}, T {frequency}, {width} channels", found, expected)
    layer = Position(4, Encoding("multiply", 1, 0.05))
    output = layer(rows([0.5, -1.0, 2.0, 0.3]))[0].tolist()
    yield Golden("PAN", "release", "output of a layer", output, [0.5, -1.05, 2.0, 0.285])


def golden_values() -> list[Golden]:
    """Return all comparisons."""
    return [
        *terms(), *terms_of_fedetf(), *terms_of_fedrcl(), *terms_of_fedvls(), *perturbed_steps(),
        *server_steps(), *personal_parts(), *positions(),
    ]  # fmt: skip
