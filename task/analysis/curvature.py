"""The Hessian of the loss, by its products with vectors: it is never written down.

Second derivatives are those of the mean cross-entropy by the trained parameters, with the model as
it is scored (batch norm uses its statistics, nothing is dropped).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from task.data.batches import DeviceImages
from task.evaluation import BATCH_PIXELS
from task.methods.base import trained_parameters

SLOPES_AT_ONCE = 20_000_000  # numbers


@dataclass(frozen=True)
class Eigenpairs:
    """Some eigenvalues of a matrix, largest first, and their vectors.

    Attributes:
        values: [count], float64.
        vectors: [count, size], each of length 1.
    """

    values: NDArray[np.float64]
    vectors: Tensor


class Operator(Protocol):
    """A symmetric matrix that is known by its products."""

    @property
    def size(self) -> int:
        """How many rows it has."""

    def products(self, vectors: Tensor) -> Tensor:
        """Its product with each of `vectors` [n, size], float32 on the CPU: [n, size]."""


class Hessian:
    """The Hessian of the loss on a set of images.

    Args:
        model: the model; put into evaluation.
        images: the data set.
        positions: the set's images in it.

    Attributes:
        size: the number of trained parameters.
    """

    def __init__(self, model: nn.Module, images: DeviceImages, positions: Tensor) -> None:
        self._model, self._images, self._positions = model.eval(), images, positions
        self._parameters = list(trained_parameters(model).values())
        self.size = sum(parameter.numel() for parameter in self._parameters)

    def products(self, vectors: Tensor) -> Tensor:
        """See `Operator`."""
        first = self._parameters[0]
        split = [self._like_parameters(vector.to(first)) for vector in vectors]
        totals = torch.zeros(len(vectors), self.size, dtype=torch.float64)
        for batch in self._positions.split(self._images.at_once(BATCH_PIXELS)):
            x, y = self._images[batch]
            loss = F.cross_entropy(self._model(x).logits, y, reduction="sum")
            slopes = torch.autograd.grad(loss, self._parameters, create_graph=True)
            for row, vector in enumerate(split):
                found = torch.autograd.grad(slopes, self._parameters, vector, retain_graph=True)
                totals[row] += torch.cat([part.flatten() for part in found]).cpu()
        return (totals / len(self._positions)).to(vectors)

    def _like_parameters(self, vector: Tensor) -> list[Tensor]:
        parts = vector.split([parameter.numel() for parameter in self._parameters])
        return [part.view_as(own) for part, own in zip(parts, self._parameters, strict=True)]


@dataclass(frozen=True)
class Mixture:
    """A weighted sum of matrices: with shares of the images, the federation's Hessian.

    Attributes:
        parts: the matrices, of one size.
        shares: the weight of each.
    """

    parts: Sequence[Operator]
    shares: Sequence[float]

    @property
    def size(self) -> int:
        """How many rows it has."""
        return self.parts[0].size

    def products(self, vectors: Tensor) -> Tensor:
        """See `Operator`."""
        total = torch.zeros_like(vectors)
        for part, share in zip(self.parts, self.shares, strict=True):
            total += share * part.products(vectors)
        return total


def top_eigenpairs(
    matrix: Operator, count: int, generator: torch.Generator, tolerance: float
) -> Eigenpairs:
    """The largest eigenvalues, by Lanczos iteration (ARPACK) to a relative tolerance.

    They are fewer than `count` if the matrix has no more rows.
    """

    def product(vector: NDArray[np.float64]) -> NDArray[np.float64]:
        row = torch.from_numpy(vector.reshape(1, -1).copy()).float()
        return matrix.products(row)[0].double().numpy()

    operator = LinearOperator((matrix.size, matrix.size), matvec=product, dtype=np.float64)
    start = torch.randn(matrix.size, generator=generator, dtype=torch.float64).numpy()
    count = min(count, matrix.size - 1)
    values, vectors = eigsh(operator, count, which="LA", v0=start, tol=tolerance)
    order = np.argsort(-values)
    return Eigenpairs(values[order], torch.from_numpy(vectors.T[order].copy()).float())


def diagonal(model: nn.Module, images: DeviceImages, positions: Tensor) -> Tensor:
    """The diagonal of the `Hessian` on a set of images, [size], float64 on the CPU.

    A network of linear layers, convolutions, ReLUs and batch norm with fixed statistics is a
    piecewise linear function of each single weight, so that the diagonal is that of the
    Gauss-Newton matrix: the mean over images, and over classes k by their probability, of
    (d log p_k / d w)^2. Random probes of the Hessian, the usual way, drown it in noise: its square
    norm is a hundredth of that of the other entries.

    Args:
        model: a piecewise linear one; put into evaluation.
        images: the data set.
        positions: the set's images in it.
    """
    model.eval()
    parameters = {name: value.detach() for name, value in trained_parameters(model).items()}

    def log_probability(own: dict[str, Tensor], x: Tensor, label: int) -> Tensor:
        logits: Tensor = functional_call(model, own, (x.unsqueeze(0),)).logits
        return logits.log_softmax(dim=1)[0, label]

    slopes = vmap(grad(log_probability), in_dims=(None, 0, None))
    size = sum(value.numel() for value in parameters.values())
    total = torch.zeros(size, dtype=torch.float64)
    for batch in positions.split(max(1, SLOPES_AT_ONCE // size)):
        x, _ = images[batch]
        with torch.no_grad():
            probabilities = model(x).logits.softmax(dim=1)
        for label, weights in enumerate(probabilities.T):
            found = slopes(parameters, x, label)
            squares = [(weights @ of.flatten(1).square()) for of in found.values()]
            total += torch.cat(squares).double().cpu()
    return total / len(positions)


def norm_difference(diagonals: Sequence[Tensor]) -> float:
    """H_N of FedAlign, Eq. 3: (|diag H_k| - |diag H_j|)^2, the mean over pairs of clients."""
    norms = [float(of.norm()) for of in diagonals]
    return float(np.mean([(one - other) ** 2 for one, other in combinations(norms, 2)]))


def direction_agreement(diagonals: Sequence[Tensor]) -> float:
    """H_D of FedAlign, Eq. 4: the cosine of diag H_k and diag H_j, the mean over pairs of clients.

    NaN where a client's loss is flat.
    """
    pairs = combinations(diagonals, 2)
    return float(
        np.mean([float(one @ other / (one.norm() * other.norm())) for one, other in pairs])
    )
