"""The arithmetic of papers and releases in float64, in plain loops and without code of ours.

Sources: UniVarFL, Eqs. 1 to 3; FedUV (CVPR 2024), Eqs. 2 to 4, and sonhamin/FedUV; FedAlign (CVPR
2022), Eqs. 5 to 7, and mmendiet/FedAlign; MOON (CVPR 2021), Eq. 3; FedProx (MLSys 2020), Eq. 2;
SCAFFOLD (ICML 2020), Algorithm 1 with option II; FedDyn (ICLR 2021), Algorithm 1.
"""

from collections.abc import Callable

import torch
from torch import Tensor

Gradient = Callable[[Tensor, int], Tensor]  # of a client's loss at some weights


def hinge(logits: Tensor, square: bool) -> Tensor:
    """Mean over the classes of ``max(0, c - spread(p_j))``; c is the spread of the identity's rows.

    Args:
        logits: [n, D].
        square: whether the spread is the variance (UniVarFL) or its root (FedUV).
    """
    classes = logits.shape[1]
    exponentials = (logits - logits.max(dim=1, keepdim=True).values).exp()
    probabilities = exponentials / exponentials.sum(dim=1, keepdim=True)

    def spread(column: Tensor) -> Tensor:
        variance: Tensor = (column - column.sum() / len(column)).square().sum() / (len(column) - 1)
        return variance if square else variance.sqrt()

    goal = spread(torch.eye(classes, dtype=torch.float64)[0])
    missing = [goal - spread(probabilities[:, j]) for j in range(classes)]
    return torch.stack([value.clamp_min(0) for value in missing]).sum() / classes


def energy(features: Tensor, eps: float) -> Tensor:
    """UniVarFL, Eq. 3, without the diagonal, which is a constant."""
    unit = [row / row.square().sum().sqrt() for row in features]
    pairs = [1 / (1 - (a * b).sum() + eps) for a in unit for b in unit if a is not b]
    return torch.stack(pairs).sum() / len(unit) ** 2


def potential(features: Tensor, release: bool) -> Tensor:
    """FedUV, Eq. 4: over pairs of different rows; the release also differentiates the median."""
    rows = range(len(features))
    square = {
        (i, j): (features[i] - features[j]).square().sum() for i in rows for j in rows if i != j
    }
    once = torch.stack([square[i, j] for i, j in square if i < j])
    median = once.sort().values[(len(once) - 1) // 2]
    scale = median if release else 2 * median.detach()
    return torch.stack([(-value / scale).exp() for value in square.values()]).mean()


def contrastive(features: Tensor, toward: Tensor, away: Tensor, temperature: float) -> Tensor:
    """MOON, Eq. 3, as its release writes it: a cross-entropy over two logits whose class is 0."""

    def cosine(a: Tensor, b: Tensor) -> Tensor:
        return (a * b).sum() / (a.square().sum().sqrt() * b.square().sum().sqrt())

    total = []
    for z, near, far in zip(features, toward, away, strict=True):
        logits = torch.stack([cosine(z, near), cosine(z, far)]) / temperature
        total.append(logits.exp().sum().log() - logits[0])
    return torch.stack(total).mean()


def lipschitz(narrow_in: Tensor, narrow: Tensor, full_in: Tensor, full: Tensor) -> Tensor:
    """FedAlign, Eqs. 5 to 7: ten power iterations on ``X X^T``, from a vector of ones."""

    def norm(before: Tensor, after: Tensor) -> Tensor:
        matrix = before.flatten(1) @ after.flatten(1).T / after[0].numel()
        gram = matrix @ matrix.T
        vector = torch.ones(len(gram), dtype=torch.float64)
        vector = vector / vector.square().sum().sqrt()
        length = vector.new_ones(())
        for _ in range(10):
            vector = gram @ vector
            length = vector.square().sum().sqrt()
            vector = vector / length
        return length.sqrt()

    gaps = [
        (norm(*student) - norm(*teacher)).square()
        for student, teacher in zip(
            zip(narrow_in, narrow, strict=True), zip(full_in, full, strict=True), strict=True
        )
    ]
    return torch.stack(gaps).mean()


def fedprox(gradient: Gradient, start: Tensor, lr: float, momentum: float, mu: float) -> Tensor:
    """Three steps of SGD with momentum on ``F(w) + mu / 2 * ||w - start||^2``."""
    w, velocity = start.clone(), torch.zeros_like(start)
    for _ in range(3):
        velocity = momentum * velocity + gradient(w, 0) + mu * (w - start)
        w = w - lr * velocity
    return w


def scaffold(
    gradient: Gradient, x: Tensor, lr: float, steps: int, rounds: int
) -> dict[str, Tensor]:
    """Algorithm 1 with option II, two clients, both in every round, and a global step of 1."""
    c, own = torch.zeros_like(x), [torch.zeros_like(x), torch.zeros_like(x)]
    for _ in range(rounds):
        moved, changed = [], []
        for i in (0, 1):
            y = x.clone()
            for _ in range(steps):
                y = y - lr * (gradient(y, i) - own[i] + c)
            new = own[i] - c + (x - y) / (steps * lr)
            moved.append(y - x)
            changed.append(new - own[i])
            own[i] = new
        x = x + (moved[0] + moved[1]) / 2
        c = c + (changed[0] + changed[1]) / 2
    return {"global weights": x, "c": c, "c_i": torch.stack(own)}


def feddyn(
    gradient: Gradient, theta: Tensor, lr: float, steps: int, rounds: int, alpha: float
) -> dict[str, Tensor]:
    """Algorithm 1, two clients, both in every round; each client's optimum by some steps of SGD."""
    h, last = torch.zeros_like(theta), [torch.zeros_like(theta), torch.zeros_like(theta)]
    for _ in range(rounds):
        trained = []
        for i in (0, 1):
            w = theta.clone()
            for _ in range(steps):
                w = w - lr * (gradient(w, i) - last[i] + alpha * (w - theta))
            last[i] = last[i] - alpha * (w - theta)
            trained.append(w)
        h = h - alpha * ((trained[0] - theta) + (trained[1] - theta)) / 2
        theta = (trained[0] + trained[1]) / 2 - h / alpha
    return {"global weights": theta, "h": h, "h_i": torch.stack(last)}
