"""Normalisation layers: batch norm, or group norm, which keeps no statistics of the data.

With ``fixed`` batch norm is trained on the batches' statistics at first, and on the global ones
from a round on: they do not change any more, so that clients train the network that is averaged.
Source: FixBN, Zhong et al., "Making Batch Normalization Great in Federated Deep Learning",
arXiv 2303.06530. We know its abstract: training is divided into two stages, and the second one
freezes the statistics. The momentum that the paper adds is not built.
"""

from collections.abc import Iterable, Iterator
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from task.tensors import Tensors

Norm = Literal["batch", "fixed", "group"]

NORMALISATIONS = (_BatchNorm, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)
MEAN, VARIANCE = "running_mean", "running_var"
GROUPS = 8  # divides every channel count of these models; the smallest is 16


def norm_2d(kind: Norm, channels: int) -> nn.Module:
    """Return the normalisation layer for maps [n, channels, h, w]."""
    return nn.GroupNorm(GROUPS, channels) if kind == "group" else nn.BatchNorm2d(channels)


def norm_1d(kind: Norm, channels: int) -> nn.Module:
    """Return the normalisation layer for vectors [n, channels]."""
    return nn.GroupNorm(GROUPS, channels) if kind == "group" else nn.BatchNorm1d(channels)


def fix_statistics(model: nn.Module) -> None:
    """Have a model in training mode normalise with its running statistics, which then stay."""
    for layer in batch_norm_layers(model).values():
        layer.eval()


def batch_norm_layers(model: nn.Module) -> dict[str, _BatchNorm]:
    """Return the layers of batch norm that keep statistics, by name."""
    return {
        name: layer
        for name, layer in model.named_modules()
        if isinstance(layer, _BatchNorm) and layer.running_mean is not None
    }


def statistics_names(weights: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the names of the running mean and variance of each layer among those of weights."""
    for name in weights:
        if name.endswith(VARIANCE):
            yield f"{name.removesuffix(VARIANCE)}{MEAN}", name


def with_second_moments(trained: Tensors, start: Tensors) -> dict[str, Tensor]:
    """Return a client's weights with second moments in place of the running variances.

    They are the mean squares of a layer's inputs minus the running mean at the start, so that they
    can be averaged over clients: var_k + (mean_k - mean)^2. Centred, they keep their precision.

    Args:
        trained: after training.
        start: the global weights before it.
    """
    found = dict(trained)
    for mean, variance in statistics_names(trained):
        moved = trained[mean].double() - start[mean].double()
        found[variance] = (trained[variance].double() + moved.square()).to(trained[variance].dtype)
    return found


@torch.no_grad()
def layers_in_order(model: nn.Module, channels: int, size: int) -> list[str]:
    """Return the names of `batch_norm_layers` in the order in which an image passes them.

    Args:
        model: put into eval mode.
        channels: of its images.
        size: height and width of its images, in pixels.
    """
    passed: list[str] = []
    hooks = [
        layer.register_forward_pre_hook(lambda *_, name=name: passed.append(name))
        for name, layer in batch_norm_layers(model).items()
    ]
    device = next(model.parameters()).device
    try:
        model.eval()(torch.zeros(1, channels, size, size, device=device))
    finally:
        for hook in hooks:
            hook.remove()
    return list(dict.fromkeys(passed))


@torch.no_grad()
def measure_statistics(model: nn.Module, batches: Iterable[Tensor]) -> None:
    """Replace batch norm's statistics by their mean over some batches; weights stay.

    Args:
        model: put into eval mode, its batch norm into training mode.
        batches: images, each [n, C, H, W].
    """
    layers = [layer for layer in model.modules() if isinstance(layer, _BatchNorm)]
    momentum = [layer.momentum for layer in layers]
    model.eval()  # dropped blocks and the like are those of training
    try:
        for layer in layers:
            layer.reset_running_stats()
            layer.train()
        for number, batch in enumerate(batches, start=1):
            for layer in layers:
                layer.momentum = 1 / number  # all batches count the same
            model(batch)
    finally:
        for layer, value in zip(layers, momentum, strict=True):
            layer.momentum = value
