"""The classifier that sums of features give."""

import torch
from torch import Tensor

from server_app.rounds.errors import RunFailedError
from task.protocol.after.sums import FRACTION

NOT_POSITIVE = (
    "the sums of products and the penalty have no solution: a client has sent sums that no "
    "images have, or the penalty is too small"
)


def ridge_classifier(products: Tensor, by_class: Tensor, penalty: float) -> Tensor:
    """Return the classifier's weight [D, d] by ridge regression, float64, with rows of length 1.

    Args:
        products: the sum of products of features, [d, d] int64, in units of 2^(-2 `FRACTION`).
        by_class: the sum of each class's features, [D, d] int64, in units of 2^-`FRACTION`.
        penalty: lambda, above 0.

    Raises:
        RunFailedError: there is no solution.
    """
    matrix = products.double() * 2.0 ** (-2 * FRACTION)
    matrix.diagonal().add_(penalty)
    factor, failed = torch.linalg.cholesky_ex(matrix)
    if bool(failed):
        raise RunFailedError(NOT_POSITIVE)
    sums = by_class.double() * 2.0**-FRACTION
    return unit_rows(torch.cholesky_solve(sums.T, factor).T)


def mean_classifier(by_class: Tensor) -> Tensor:
    """Return the direction of the mean of each class's features, [D, d] float64.

    Args:
        by_class: the sum of each class's features, [D, d] int64.
    """
    return unit_rows(by_class.double())


def unit_rows(rows: Tensor) -> Tensor:
    """Return rows of length 1; those of 0 stay 0."""
    lengths = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows / torch.where(lengths > 0, lengths, 1.0)
