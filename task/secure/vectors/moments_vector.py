"""The moments of one layer's inputs as a vector of 64-bit integers, which can be masked and added.

They are counted in the statistics that the model has now: the means of (x - m) / s and of its
square, by channel, with m the running mean and s^2 the running variance plus epsilon. So they are
near 0 and 1 whatever the layer's scale is, and the variance keeps its precision. Each is weighted
in float64 and rounded once, at random. A count times a rounded mean would let sums be taken apart.
"""

import numpy as np
import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from task.secure.primitives.mask_stream import Vector
from task.secure.vectors.rounded_sum import LARGEST
from task.secure.vectors.rounding import UNIT, rounded_at_random


class MomentsVector:
    """The form of one layer's moments.

    Args:
        layer: has the statistics that moments are counted in, [c] each.

    Attributes:
        length: of the vector: 2 c.
    """

    def __init__(self, layer: _BatchNorm) -> None:
        assert layer.running_mean is not None
        assert layer.running_var is not None
        self._mean = layer.running_mean.detach().cpu().double()
        self._scale = (layer.running_var.detach().cpu().double() + layer.eps).sqrt()
        self.length = 2 * len(self._mean)

    def pack(self, mean: Tensor, variance: Tensor, weight: float, key: bytes) -> Vector:
        """Return a client's moments, weighted and rounded.

        Args:
            mean: of the layer's inputs, [c] float64.
            variance: likewise.
            weight: of the client, 1 for the largest.
            key: 32 bytes that the rounding is drawn from.

        A number that is too large, or NaN, counts as the largest. A refusal would tell the
        coordinator, which chooses the model, something of one client's images.
        """
        first = (mean - self._mean) / self._scale
        second = variance / self._scale.square() + first.square()
        values = torch.cat([first, second]).nan_to_num(LARGEST, LARGEST, -LARGEST)
        values.clamp_(-LARGEST, LARGEST)
        return rounded_at_random(values.numpy(), weight, UNIT, key)

    def unpack(self, vector: Vector, weight: float) -> tuple[Tensor, Tensor]:
        """Return mean and variance of all inputs, each [c] float64.

        Args:
            vector: the sum of packed moments.
            weight: the sum of their weights, above 0.
        """
        values = torch.from_numpy(vector.astype(np.float64) * (UNIT / weight))
        first, second = values.chunk(2)
        variance = (second - first.square()).clamp(min=0) * self._scale.square()
        return self._mean + first * self._scale, variance
