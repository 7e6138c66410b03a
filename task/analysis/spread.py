"""The spread of a model's class probabilities and features over a set of images."""

import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from torch import Tensor

UNIFORMITY_T = 2.0


def class_variances(logits: Tensor) -> Tensor:
    """Return the variance of each class's probability over the images, as in UniVarFL, Eq. 1.

    For many images, one-hot predictions that name each class equally often give (1 - 1/D) / D.

    Args:
        logits: [n, D], of at least two images.

    Returns:
        [D], float64.
    """
    return logits.double().softmax(dim=1).var(dim=0)


def uniformity(features: Tensor) -> float:
    """Return log(mean exp(-2 ||z_i - z_j||^2)) over pairs of images, z the L2-normalised features.

    It is 0 if all features have the same direction, and lower the more evenly they cover the
    sphere. Source: Wang and Isola, "Understanding Contrastive Representation Learning through
    Alignment and Uniformity on the Hypersphere", ICML 2020, with their t = 2.

    Args:
        features: [n, d], of at least two images.
    """
    squared = torch.pdist(F.normalize(features.double(), dim=1)).square()
    return float((-UNIFORMITY_T * squared).exp().mean().log())
