"""How far a model spreads its class probabilities and its features over a set of images."""

import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from torch import Tensor

UNIFORMITY_T = 2.0


def class_variances(logits: Tensor) -> Tensor:
    """The variance of each class's probability over the images, as in UniVarFL, Eq. 1.

    Of many images, one-hot predictions of each class as often give (1 - 1/D) / D.

    Args:
        logits: [n, D], of at least two images.

    Returns:
        [D], float64.
    """
    return logits.double().softmax(dim=1).var(dim=0)


def uniformity(features: Tensor) -> float:
    """The logarithm of the mean exp(-2 |z_i - z_j|^2) over pairs of images, z of length 1.

    0 where all features point the same way, lower the more evenly they cover the sphere. Wang and
    Isola, "Understanding Contrastive Representation Learning through Alignment and Uniformity on
    the Hypersphere", ICML 2020, with their t = 2.

    Args:
        features: [n, d], of at least two images.
    """
    squared = torch.pdist(F.normalize(features.double(), dim=1)).square()
    return float((-UNIFORMITY_T * squared).exp().mean().log())
