"""DP-SGD: local training with differential privacy for each training image.

Source: Abadi et al., "Deep Learning with Differential Privacy", CCS 2016, Algorithm 1, with Poisson
batches. A step draws each image with the same probability, clips the gradient of each, adds them
up, and adds Gaussian noise. opacus computes the gradients of single images.

Nothing that leaves a client depends on its number of images: the number of steps and the divisor of
the sum come from the settings. So adding or removing an image changes one term of each sum.

The noise, the batches and the augmentations come from the operating system. Shuffled batches would
not have the cost that is accounted (Chua et al., NeurIPS 2024).
"""

import time
import warnings
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import torch
from opacus.grad_sample import GradSampleModule
from torch import Tensor, nn

from task.config import LocalConfig
from task.data.batches import DeviceImages
from task.errors import out_of_time
from task.methods.base import Method
from task.optim.parameters import trained_parameters
from task.privacy.noise import add_gaussian_noise
from task.privacy.settings import UNTOLD_IMAGES
from task.seeding import ByteSource, repeatable_bytes, secret_bytes
from task.training.loop import Key, LocalTrainer
from task.training.losses import LossMeter, loss_terms, weighted_sum


class PrivateTrainer(LocalTrainer):
    """Trains clients by DP-SGD.

    Args:
        model: reset for each client; its layers get hooks that keep the gradients of single images.
        method: one whose loss is a mean over images.
        config: the experiment.
    """

    least_images: ClassVar = 0  # a client without images sends noise alone

    def __init__(self, model: nn.Module, method: Method, config: LocalConfig) -> None:
        super().__init__(model, method, config)
        for layer in model.modules():
            if getattr(layer, "inplace", False):
                layer.inplace = False  # type: ignore[assignment]  # hooks need all inputs
        # opacus 1.6 computes wrong gradients of convolutions whose input is channels last.
        model.to(memory_format=torch.contiguous_format)
        self._hooks = GradSampleModule(model, loss_reduction="mean")
        self._parameters = list(trained_parameters(model).values())

    def run_epochs(
        self,
        images: DeviceImages,
        positions: Tensor,
        deadline: float,
        key: Key,
        meter: LossMeter,
    ) -> None:
        privacy = self.config.privacy
        random_bytes = repeatable_bytes(*key) if privacy.reproducible else secret_bytes
        steps = privacy.steps(self.config.local_epochs)
        deviation = privacy.noise_multiplier * privacy.clipping_norm
        for step in range(steps):
            if time.monotonic() > deadline:
                raise out_of_time(f"step {step + 1} of {steps}")
            rows = poisson_sample(positions, privacy.sampling_rate, random_bytes)
            sums = [torch.zeros_like(value, dtype=torch.float64) for value in self._parameters]
            for x, y in self._parts(images, rows, random_bytes):
                self._add_clipped(x, y, sums)
            for parameter, total in zip(self._parameters, sums, strict=True):
                noisy = add_gaussian_noise(total.cpu().numpy(), deviation, random_bytes)
                mean = torch.from_numpy(noisy / self.config.batch_size)
                parameter.grad = mean.to(parameter.device, parameter.dtype)
            self.method.gradients(self.model)
            self.optimizer.step()

    def told(self, examples: int, meter: LossMeter) -> tuple[int, dict[str, float]]:
        return UNTOLD_IMAGES, {}

    def _parts(
        self, images: DeviceImages, rows: Tensor, random_bytes: ByteSource
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield a batch in parts of `batch_size` images, which bounds the memory.

        Each image's augmentation is drawn by itself. With one generator for the batch, an image
        more or less would change the augmentation of the others, and so more than one gradient.
        """
        if not len(rows):
            return
        seeds = np.frombuffer(random_bytes(8 * len(rows)), np.uint64).tolist()
        drawn = [self.augmentation.draw(1, torch.Generator().manual_seed(seed)) for seed in seeds]
        changes = torch.cat(drawn).to(rows.device)
        size = self.config.batch_size
        for part, change in zip(rows.split(size), changes.split(size), strict=True):
            x, y = images.augmented(part, change, self.augmentation)
            # With one channel, `contiguous` would leave the strides of channels last.
            yield torch.empty(x.shape, device=x.device).copy_(x), y

    def _add_clipped(self, x: Tensor, y: Tensor, sums: list[Tensor]) -> None:
        """Add the clipped gradient of each image, in float64."""
        self.optimizer.clear_gradients()
        x, y = self.method.batch(x, y)
        terms = loss_terms(self.method, self.forward(x), x, y, self.entropy)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Full backward hook is firing")  # on the first layer
            weighted_sum(terms).backward()
        found = [gradients_by_image(parameter, len(x)) for parameter in self._parameters]
        norms = torch.stack([part.flatten(1).norm(dim=1) for part in found]).norm(dim=0)
        scales = clipping_scales(norms, self.config.privacy.clipping_norm)
        for total, part in zip(sums, found, strict=True):
            part[scales == 0] = 0  # NaN times 0 is NaN
            total.add_(torch.tensordot(scales, part, dims=1))


def poisson_sample(positions: Tensor, rate: float, random_bytes: ByteSource) -> Tensor:
    """Return each position with probability `rate`, independently."""
    if rate == 1:
        return positions
    words = np.frombuffer(random_bytes(8 * len(positions)), np.uint64)
    drawn = np.flatnonzero(words < np.uint64(int(rate * 2**64)))
    return positions[torch.from_numpy(drawn).to(positions.device)]


def gradients_by_image(parameter: nn.Parameter, images: int) -> Tensor:
    """Return a parameter's gradient of each image, float64, and drop it from the parameter."""
    found = getattr(parameter, "grad_sample", None)
    parameter.grad_sample = None  # type: ignore[attr-defined]  # opacus's attribute
    if found is None:
        return parameter.new_zeros((images, *parameter.shape), dtype=torch.float64)
    assert isinstance(found, Tensor)
    return found.double()


def clipping_scales(norms: Tensor, most: float) -> Tensor:
    """Return the factors that bring norms to at most `most`; 0 for a norm that is not finite."""
    scales = (most / norms.clamp(min=1e-300)).clamp(max=1.0)
    return torch.where(norms.isfinite(), scales, 0.0)
