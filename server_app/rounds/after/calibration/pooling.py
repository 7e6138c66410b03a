"""The statistics of all clients' features together, from those of each client."""

import torch
from torch import Tensor

from task.protocol.after.statistics import CLASSES, COUNTS, COVARIANCES, MEANS
from task.tensors import Tensors


class PooledStatistics:
    """Count, mean and covariance of each class over the clients that were added.

    They are those of all features in one place. Deviations from the mean are added up instead of
    products of means, which would cancel. The order of the clients decides the last bits, so they
    are added by number.

    Args:
        classes: D.
        features: d.

    Attributes:
        counts: the number of images of each class, [D] int64.
        means: [D, d] float64; 0 for a class without images.
    """

    def __init__(self, classes: int, features: int) -> None:
        self.counts = torch.zeros(classes, dtype=torch.int64)
        self.means = torch.zeros(classes, features, dtype=torch.float64)
        self._scatter: dict[int, Tensor] = {}  # by class, the summed products of deviations

    def add(self, client: Tensors) -> None:
        """Add a client's statistics, which `check_statistics` has checked."""
        numbers, counts = client[CLASSES].tolist(), client[COUNTS].tolist()
        for row, (label, count) in enumerate(zip(numbers, counts, strict=True)):
            own = client[COVARIANCES][row]
            scatter = (count - 1) * (own + own.T) / 2
            before = int(self.counts[label])
            delta = client[MEANS][row] - self.means[label]
            whole = before + count
            if before:
                scatter = self._scatter[label] + scatter
                scatter += (before * count / whole) * torch.outer(delta, delta)
            self._scatter[label] = scatter
            self.means[label] += delta * (count / whole)
            self.counts[label] = whole

    @property
    def present(self) -> list[int]:
        """The classes that a client has, ascending."""
        return sorted(self._scatter)

    def covariance(self, label: int) -> Tensor:
        """Return the unbiased covariance of a class that is present, [d, d]; 0 for one image."""
        return self._scatter[label] / max(1, int(self.counts[label]) - 1)
