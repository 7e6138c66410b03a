"""The Hessian of the loss: products with vectors, largest eigenvalues, and its diagonal.

The loss is the mean cross-entropy as a function of the trained parameters. The model is in eval
mode: batch norm uses its statistics, and no block is dropped. The matrix itself is never stored.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from task.data.batches import DeviceImages
from task.optim.parameters import trained_parameters

GRADIENT_NUMBERS = 20_000_000  # per batch: one gradient for each image
BATCH_PIXELS = 64 * 32 * 32  # second derivatives store the activations of two passes


@dataclass(frozen=True)
class Eigenpairs:
    """Eigenvalues of a matrix, largest first, and their eigenvectors.

    Attributes:
        values: [count], float64.
        vectors: [count, size], each of L2 norm 1, float64.
    """

    values: NDArray[np.float64]
    vectors: Tensor


class Hessian:
    """The Hessian of the loss on a set of images.

    Args:
        model: the model; put into eval mode.
        images: the data set.
        positions: the indices of the images in it, [n].
        shares: the weight of each image, [n]; their sum is 1.

    Attributes:
        size: the number of trained parameters.
    """

    def __init__(
        self, model: nn.Module, images: DeviceImages, positions: Tensor, shares: Tensor
    ) -> None:
        self._model, self._images = model.eval(), images
        self._positions, self._shares = positions, shares
        self._parameters = list(trained_parameters(model).values())
        self.size = sum(parameter.numel() for parameter in self._parameters)

    def product(self, vector: Tensor) -> Tensor:
        """Return the product with a vector [size], float64, on the CPU."""
        own = vector.to(self._parameters[0])
        split = own.split([parameter.numel() for parameter in self._parameters])
        parts = [part.view_as(like) for part, like in zip(split, self._parameters, strict=True)]
        total = torch.zeros(self.size, dtype=torch.float64)
        at_once = self._images.images_per(BATCH_PIXELS)
        for batch, shares in zip(
            self._positions.split(at_once), self._shares.split(at_once), strict=True
        ):
            x, y = self._images[batch]
            losses = F.cross_entropy(self._model(x).logits, y, reduction="none")
            loss = losses @ shares.to(losses)
            gradients = torch.autograd.grad(loss, self._parameters, create_graph=True)
            products = torch.autograd.grad(gradients, self._parameters, parts)
            total += torch.cat([part.flatten() for part in products]).double().cpu()
        return total


def top_eigenpairs(
    matrix: Hessian, count: int, generator: torch.Generator, tolerance: float
) -> Eigenpairs:
    """Return the largest eigenpairs, by Lanczos iteration (ARPACK).

    Args:
        matrix: the Hessian.
        count: the number of eigenpairs.
        generator: for the start vector.
        tolerance: the relative error of the eigenvalues.

    Raises:
        ArpackError: the iteration did not converge.
    """

    def product(vector: NDArray[np.float64]) -> NDArray[np.float64]:
        return matrix.product(torch.from_numpy(vector.reshape(-1).copy())).numpy()

    operator = LinearOperator((matrix.size, matrix.size), matvec=product, dtype=np.float64)
    start = torch.randn(matrix.size, generator=generator, dtype=torch.float64).numpy()
    values, vectors = eigsh(operator, count, which="LA", v0=start, tol=tolerance)
    order = np.argsort(-values)
    return Eigenpairs(values[order], torch.from_numpy(vectors.T[order].copy()))


def diagonal(model: nn.Module, images: DeviceImages, positions: Tensor) -> Tensor:
    """Return the diagonal of the `Hessian` on a set of images, [size], float64, on the CPU.

    A network of linear layers, convolutions, ReLUs and batch norm with fixed statistics is a
    piecewise linear function of each single weight. The diagonal is then that of the Gauss-Newton
    matrix: the mean over images, and over classes k weighted by p_k, of (d log p_k / d w)^2. The
    usual estimate by m random probes is not used: it would add 1/m of the squares of all other
    entries to the squared norm, and these are far larger.

    Args:
        model: a piecewise linear network; put into eval mode.
        images: the data set.
        positions: the indices of the images in it, [n].
    """
    model.eval()
    parameters = {name: value.detach() for name, value in trained_parameters(model).items()}

    def log_probability(own: dict[str, Tensor], x: Tensor, label: int) -> Tensor:
        logits: Tensor = functional_call(model, own, (x.unsqueeze(0),)).logits
        return logits.log_softmax(dim=1)[0, label]

    gradients = vmap(grad(log_probability), in_dims=(None, 0, None))
    size = sum(value.numel() for value in parameters.values())
    totals = {name: torch.zeros_like(of, dtype=torch.float64) for name, of in parameters.items()}
    for batch in positions.split(max(1, GRADIENT_NUMBERS // size)):
        x, _ = images[batch]
        with torch.no_grad():
            probabilities = model(x).logits.softmax(dim=1)
        for label, weights in enumerate(probabilities.T):
            for name, gradient in gradients(parameters, x, label).items():
                totals[name] += torch.tensordot(weights, gradient.square(), dims=1)
    return torch.cat([total.flatten().cpu() for total in totals.values()]) / len(positions)


def traces_of_tensors(model: nn.Module, of_diagonal: Tensor) -> Tensor:
    """Return the trace of each parameter tensor's block of the Hessian, [tensors].

    Args:
        model: the network.
        of_diagonal: its `diagonal`.
    """
    sizes = [parameter.numel() for parameter in trained_parameters(model).values()]
    return torch.stack([part.sum() for part in of_diagonal.split(sizes)])


def norm_difference(diagonals: Sequence[Tensor], *, own: bool = False) -> float:
    """Return H_N of FedAlign, Eq. 3: mean over pairs of (||diag H_k|| - ||diag H_j||)^2.

    Args:
        diagonals: of each client.
        own: whether the pairs of a client with itself count, as in FedAlign's program.
    """
    norms = [float(of.norm()) for of in diagonals]
    pairs = product(norms, norms) if own else combinations(norms, 2)
    return float(np.mean([(one - other) ** 2 for one, other in pairs]))


def direction_agreement(diagonals: Sequence[Tensor], *, own: bool = False) -> float:
    """Return H_D of FedAlign, Eq. 4: mean over pairs of the cosine of diag H_k and diag H_j.

    NaN if a client's diagonal is 0.

    Args:
        diagonals: of each client.
        own: whether the pairs of a client with itself count, as in FedAlign's program.
    """
    pairs = product(diagonals, diagonals) if own else combinations(diagonals, 2)
    return float(
        np.mean([float(one @ other / (one.norm() * other.norm())) for one, other in pairs])
    )
