"""Measure each method's forward FLOPs and stored parameters relative to FedAvg.

    uv run python -m benchmarks.cost                      (three minutes)

Counts the forward passes of one training batch (32x32, 100 classes, resnet56) with
`torch.utils.flop_counter`, and prints them beside Table 5 of FedAlign. The first column counts all
operations; the second counts those of the networks' layers only, which matches the paper's factor
for FedAlign. Stored parameters are those of the model and of every tensor and network that the
method holds during training. Means of 60 batches, as some methods draw widths, sizes or blocks.
"""

import statistics
from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from server_app.config.choices import choices
from server_app.config.composition import compose_experiment
from task.methods.base import LocalRound
from task.seeding import torch_generator

CLASSES, ROWS, DRAWS = 100, 2, 60
LAYERS = (torch.ops.aten.convolution, torch.ops.aten.addmm, torch.ops.aten.mm)
TABLE_5 = {  # relative MFLOPs and parameters
    "fedavg": (1.0, 1.0),
    "fedprox": (1.0, 1.21 / 0.61),
    "moon": (262.2 / 87.3, 2.21 / 0.61),
    "mixup": (1.0, 1.0),
    "stochdepth": (82.4 / 87.3, 1.0),
    "gradaug": (170.7 / 87.3, 1.0),
    "gradaug method.subnetworks=1": (133.9 / 87.3, 1.0),
    "fedalign": (89.1 / 87.3, 1.0),
}


def held(values: Iterable[Any], model: nn.Module) -> int:
    """Count the numbers in the tensors and networks among `values`, without the model."""
    total = 0
    for value in values:
        if isinstance(value, nn.Module):
            total += 0 if value is model else sum(p.numel() for p in value.parameters())
        elif isinstance(value, Tensor):
            total += value.numel()
        elif isinstance(value, dict):
            total += held(value.values(), model)
        elif isinstance(value, tuple):
            total += held(value, model)
    return total


def cost(words: str) -> tuple[float, float, int]:
    """Return a batch's mean forward FLOPs, those of layers only, and the stored parameters."""
    local = compose_experiment(["model=resnet56", *f"method={words}".split()]).local()
    method = local.local_method()
    model = method.build(local.network().build(3, CLASSES), torch_generator(0, "build"))
    method.start(model.train(), LocalRound(1, 0, torch_generator(0, "draws")))
    flops, in_layers = [], []
    for _ in range(DRAWS):
        x, y = torch.randn(ROWS, 3, 32, 32), torch.randint(CLASSES, (ROWS,))
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            x, y = method.batch(x, y)
            out = model(x)
            F.cross_entropy(out.logits, y)
            method.loss(out, x, y)
        flops.append(counter.get_total_flops())
        by_operation = counter.get_flop_counts()["Global"]
        in_layers.append(sum(by_operation.get(operation, 0) for operation in LAYERS))
    parameters = sum(parameter.numel() for parameter in model.parameters())
    stored = parameters + held(vars(method).values(), model)
    return statistics.mean(flops), statistics.mean(in_layers), stored


def main() -> None:
    """Print the table."""
    flops, layers, parameters = cost("fedavg")
    print(f"FedAvg: {flops / ROWS / 2e6:.1f} million multiply-adds an image (Table 5: 87.3)\n")
    print("| method | forward FLOPs | in layers | Table 5 | stored parameters | Table 5 |")
    print("|---|---|---|---|---|---|")
    for words in sorted({*choices()["method"], *TABLE_5}):
        own_flops, own_layers, own_parameters = cost(words)
        paper = [f"{value:.2f}x" for value in TABLE_5.get(words, ())] or ["", ""]
        compute = f"{own_flops / flops:.2f}x | {own_layers / layers:.2f}x | {paper[0]}"
        stored = f"{own_parameters / parameters:.2f}x | {paper[1]}"
        print(f"| {words} | {compute} | {stored} |", flush=True)


if __name__ == "__main__":
    main()
