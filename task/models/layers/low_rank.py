"""Low-rank adapters: a frozen layer plus the product of two small ones that are trained.

Source: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", ICLR 2022: the weight W
becomes W + alpha / r B A. For a convolution, A has r channels and the layer's own form, and B is a
convolution of 1x1. A is drawn as PyTorch draws a layer, and B is 0, so that training begins at W.

Outputs and gradients equal those of ``peft`` 0.21, bit for bit. It is not used because importing it
imports transformers, which takes 7 s in each process. Both layers are modules, whose gradients of
single images opacus computes; a parametrised weight would have none.
"""

import copy
import math
import re
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init

SCALE = "lora_scale"  # ends the name of alpha / r of each layer
PART = re.compile(r"(.+)\.(lora_(?:down|up)\.weight|lora_scale)")
BASE = ".lora_base."
KINDS = ("torch.nn.modules.conv.Conv2d", "timm.layers.conv2d_same.Conv2dSame")


class LowRank(nn.Module):
    """A frozen linear layer or convolution with its adapter.

    Args:
        layer: the layer.
        rank: r, the width between both matrices.
        alpha: divided by r, the factor of their product.
        generator: draws A.
    """

    lora_scale: Tensor

    def __init__(
        self, layer: nn.Linear | nn.Conv2d, rank: int, alpha: float, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.lora_base = layer
        self.lora_down = narrowed(layer, rank)
        nn.init.kaiming_uniform_(self.lora_down.weight, math.sqrt(5), generator=generator)
        self.lora_up: nn.Linear | nn.Conv2d
        if isinstance(layer, nn.Linear):
            self.lora_up = skip_init(nn.Linear, rank, layer.out_features, bias=False)
        else:
            self.lora_up = skip_init(nn.Conv2d, rank, layer.out_channels, 1, bias=False)
        nn.init.zeros_(self.lora_up.weight)
        self.register_buffer(SCALE, torch.tensor(alpha / rank))

    def forward(self, x: Tensor) -> Tensor:
        added: Tensor = self.lora_up(self.lora_down(x))
        base: Tensor = self.lora_base(x)
        return base + self.lora_scale * added


def narrowed(layer: nn.Linear | nn.Conv2d, rank: int) -> nn.Linear | nn.Conv2d:
    """Return a layer of the same form with `rank` outputs and no bias."""
    small = copy.deepcopy(layer)
    small.weight = nn.Parameter(layer.weight.new_empty(rank, *layer.weight.shape[1:]))
    small.register_parameter("bias", None)
    if isinstance(small, nn.Linear):
        small.out_features = rank
    else:
        small.out_channels = rank
    return small


def takes_adapter(layer: nn.Module) -> bool:
    """Return whether a layer's output is linear in one weight: a Linear, or a plain Conv2d.

    Subclasses may change the weight before its use, or not call the layer at all.
    """
    if type(layer) is nn.Linear:
        return True
    kind = f"{type(layer).__module__}.{type(layer).__qualname__}"
    return isinstance(layer, nn.Conv2d) and kind in KINDS and layer.groups == 1


def adapter_size(layer: nn.Linear | nn.Conv2d, rank: int) -> int:
    """Return how many numbers the adapter of a layer has."""
    outputs = len(layer.weight)
    return rank * (outputs + layer.weight.numel() // outputs)


def merged(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a network's weights with each adapter added to its layer, under the layers' own names.

    Args:
        weights: the ``state_dict`` of a network with adapters or without.
    """
    found = {name: value for name, value in weights.items() if not PART.fullmatch(name)}
    for name in [name for name in found if BASE in name]:
        layer, _, entry = name.rpartition(BASE)
        found[f"{layer}.{entry}"] = found.pop(name)
    for name in weights:
        if name.endswith(f".{SCALE}"):
            layer = name.removesuffix(f".{SCALE}")
            whole = found[f"{layer}.weight"]
            found[f"{layer}.weight"] = (whole.double() + product(layer, weights)).to(whole.dtype)
    return found


def product(layer: str, weights: Mapping[str, Tensor]) -> Tensor:
    """Return what the adapter of a layer adds to its weight, computed in float64."""
    down, up = (weights[f"{layer}.lora_{part}.weight"] for part in ("down", "up"))
    scale = weights[f"{layer}.{SCALE}"].double()
    found = scale * (up.double().flatten(1) @ down.double().flatten(1))
    return found.view(len(up), *down.shape[1:])
