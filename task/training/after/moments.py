"""Mean and variance of the inputs of one layer, by channel, over a set of images."""

from contextlib import suppress

import torch
from torch import Tensor, nn

from task.data.batches import DeviceImages
from task.seeding import torch_generator
from task.training.evaluation import batch_pixels
from task.training.worker import Worker


class PooledMoments:
    """Mean and variance over the parts that were added, as if these were in one place.

    Deviations from the mean are added up instead of squares, which would cancel. The order of the
    parts decides the last bits.

    Attributes:
        mean: by channel, [c] float64; 0 before the first part.
    """

    def __init__(self) -> None:
        self.mean = torch.zeros((), dtype=torch.float64)
        self._count = 0
        self._scatter = torch.zeros((), dtype=torch.float64)  # summed squares of deviations

    def add(self, count: int, mean: Tensor, variance: Tensor) -> None:
        """Add a part of `count` values for each channel, at least one, with its own moments."""
        whole = self._count + count
        delta = mean - self.mean
        scatter = count * variance + delta.square() * (self._count * count / whole)
        self._scatter = self._scatter + scatter
        self.mean = self.mean + delta * (count / whole)
        self._count = whole

    @property
    def variance(self) -> Tensor:
        """The mean squared deviation, [c] float64, once a part was added."""
        return self._scatter / self._count


class _Measured(Exception):  # noqa: N818  (no error)
    """Ends a forward pass after the layer that is measured."""


def measured_positions(worker: Worker, client: int, images: int) -> Tensor:
    """Return at most `images` of a client's training images, the same whenever they are measured.

    Args:
        worker: has the client.
        client: the client.
        images: at least 1.
    """
    own = worker.data.clients[client].train
    draws = torch_generator(worker.config.seed, "measured images", client)
    chosen = torch.randperm(len(own), generator=draws)[:images].sort().values
    return worker.images.index(own[chosen.numpy()])


@torch.inference_mode()
def input_moments(
    model: nn.Module, layer: str, images: DeviceImages, positions: Tensor
) -> tuple[Tensor, Tensor]:
    """Return mean and variance of a layer's inputs, each [c] float64, on the CPU.

    The layers after it are not computed.

    Args:
        model: the model; put into eval mode.
        layer: the name of the layer; its inputs are [n, c] or [n, c, h, w].
        images: the data set.
        positions: indices of images, [n] int64, at least one.
    """
    pooled = PooledMoments()

    def look(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        (x,) = inputs
        values = x.detach().double().transpose(0, 1).flatten(1)
        variance, mean = torch.var_mean(values, dim=1, correction=0)
        pooled.add(values.shape[1], mean, variance)
        raise _Measured

    hook = model.eval().get_submodule(layer).register_forward_pre_hook(look)
    try:
        for batch in positions.split(images.images_per(batch_pixels(images.device))):
            with suppress(_Measured):
                model(images[batch][0])
    finally:
        hook.remove()
    return pooled.mean.cpu(), pooled.variance.cpu()
