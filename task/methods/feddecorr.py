"""FedDecorr: a regulariser that decorrelates the dimensions of the features.

Loss: cross-entropy + beta * L_decorr, where K is the correlation matrix of the batch's features.
Paper: Shi et al., "Towards Understanding and Mitigating Dimensional Collapse in Heterogeneous
Federated Learning", ICLR 2023. Release: github.com/bytedance/FedDecorr, loss.py.
Hooks: ``loss``. Client state: none. Extra upload: none.
Extra compute: one small function of the batch's features [n, d].

Where the release differs from the paper: the paper's L_decorr is ||K||_F^2 / d^2. The release
takes the mean square of the entries off the diagonal, and multiplies it by (n - 1)^2 / n for a
batch of n images, which is close to n. Its beta of 0.1 belongs to this larger value, so
``correlation: release`` is the default.

Our choices:

* With fewer images than features, the sum of squares comes from the n x n matrix of products of
  images. It has the same Frobenius norm as the d x d matrix and costs less.
* Sums are computed in float64, and the small constant in the variance (1e-8) is the release's. A
  feature that is 0 for all images, as behind a dead ReLU, then adds nothing and gets no gradient.
* A feature that hardly changes over a batch gets a large gradient. This is a property of the
  term: the correlation of such a feature depends on its smallest digits.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from task.errors import refuse
from task.methods.base import Method, Term
from task.models.base import Output

SMALL = 1e-8  # is added to the variances


def correlation(features: Tensor) -> Tensor:
    """Return the mean square of all entries of the features' correlation matrix K.

    Args:
        features: [n, d], any float type; computed in float64.

    Returns:
        A float64 scalar; 0 for one image, which has no correlation.
    """
    width = features.shape[1]
    off_diagonal, diagonal = squares(features)
    return (off_diagonal + diagonal) / width**2


def released_correlation(features: Tensor) -> Tensor:
    """Return the mean square of the entries of K off the diagonal, times (n - 1)^2 / n.

    Args and return value are those of `correlation`; for one feature it is 0.
    """
    rows, width = features.shape
    off_diagonal, _ = squares(features)
    return off_diagonal * ((rows - 1) ** 2 / rows / max(1, width * (width - 1)))


def squares(features: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sums of the squared entries of K off and on its diagonal; features [n, d]."""
    rows, width = features.shape
    if rows < 2:
        nothing = features.double().sum() * 0
        return nothing, nothing
    centred = features.double() - features.double().mean(dim=0)
    variance = centred.square().sum(dim=0) / (rows - 1)
    scaled = centred / (SMALL + variance).sqrt()
    products = scaled @ scaled.T if rows < width else scaled.T @ scaled
    diagonal = scaled.square().sum(dim=0).square().sum()
    freedom = (rows - 1) ** 2
    return (products.square().sum() - diagonal) / freedom, diagonal / freedom


CORRELATIONS = {"paper": correlation, "release": released_correlation}


@dataclass
class FedDecorr(Method):
    """Cross-entropy + beta * L_decorr.

    Attributes:
        decorrelation_weight: beta, at least 0; 0 gives FedAvg.
        correlation: the form of L_decorr, ``paper`` or ``release``.
    """

    terms: ClassVar = ("l_decorr",)
    trains_features: ClassVar = True
    replayable: ClassVar = True
    multilabel: ClassVar = True

    decorrelation_weight: float
    correlation: Literal["paper", "release"]

    def __post_init__(self) -> None:
        if self.decorrelation_weight < 0:
            refuse(self, "decorrelation_weight", "must be at least 0")

    def loss(self, out: Output, x: Tensor, y: Tensor) -> dict[str, Term]:
        if not self.decorrelation_weight:
            return {}
        value = CORRELATIONS[self.correlation](out.features)
        return {"l_decorr": Term(value.float(), self.decorrelation_weight)}
