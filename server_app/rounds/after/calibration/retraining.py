"""A classifier trained on features that are drawn from the pooled statistics."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from torch import Tensor, nn

from server_app.rounds.after.calibration.pooling import PooledStatistics
from task.seeding import torch_generator

PURPOSE = "after ccvr"


@dataclass(frozen=True)
class Training:
    """How the classifier is trained on the features: by SGD."""

    epochs: int
    batch_size: int
    lr: float
    momentum: float


def draw_features(pooled: PooledStatistics, samples: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return features [n, d], float64, and labels [n] of each class that is present.

    Each class has a generator of its own. Negative eigenvalues of a covariance count as 0.

    Args:
        pooled: the statistics.
        samples: the number of features of each class.
        seed: the experiment's.
    """
    features, labels = [], []
    for label in pooled.present:
        values, vectors = torch.linalg.eigh(pooled.covariance(label))
        root = vectors * values.clamp(min=0).sqrt()
        generator = torch_generator(seed, PURPOSE, "class", label)
        noise = torch.randn(samples, len(values), generator=generator, dtype=torch.float64)
        features.append(pooled.means[label] + noise @ root.T)
        labels.append(torch.full((samples,), label))
    return torch.cat(features), torch.cat(labels)


def retrain(
    weight: Tensor, bias: Tensor | None, features: Tensor, labels: Tensor, how: Training, seed: int
) -> tuple[Tensor, Tensor | None]:
    """Return a linear classifier's weight [D, d] and bias [D] after training, on the CPU.

    A class without a feature is not part of the softmax, and its row does not change.

    Args:
        weight: where training starts.
        bias: as `weight`; None if it has none.
        features: [n, d], in any type.
        labels: [n].
        how: the settings.
        seed: the experiment's.
    """
    inputs = features.to(weight.dtype)
    present, targets = labels.unique(return_inverse=True)
    trained = [nn.Parameter(value.clone()) for value in (weight, bias) if value is not None]
    optimizer = torch.optim.SGD(trained, lr=how.lr, momentum=how.momentum)
    generator = torch_generator(seed, PURPOSE, "order")
    for _ in range(how.epochs):
        for batch in torch.randperm(len(inputs), generator=generator).split(how.batch_size):
            optimizer.zero_grad()
            logits = F.linear(inputs[batch], *trained)[:, present]
            F.cross_entropy(logits, targets[batch]).backward()
            optimizer.step()
    new = [value.detach() for value in trained]
    return new[0], new[1] if bias is not None else None
