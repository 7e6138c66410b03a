"""Where FedAvg's step spends its time: memory layouts, the search of algorithms, kernels.

A step is measured with its memory in ``channels_last`` (as in training) and in PyTorch's usual
order, and with ``torch.backends.cudnn.benchmark``, which tries algorithms and is not deterministic
across processes. The profiler then names the kernels. If the sum of their times is near the time
of a step, the GPU limits it, and otherwise their launches do.
"""

import time
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from benchmarks.gpu.chip import PRECISIONS, synchronize
from benchmarks.gpu.steps import CLASSES, NETWORKS, QUICK_SIZES
from benchmarks.gpu.tables import table
from benchmarks.gpu.unit import Result, Settings, Unit
from benchmarks.steps import trainer
from task.config import Precision
from task.training.device import prepare_process, set_precision
from task.training.loop import LocalTrainer
from task.training.losses import LossMeter

PART, BATCH = "kernels", 128
MEASURED = ("cnn", "resnet18")
LAYOUTS = {"channels last": torch.channels_last, "contiguous": torch.contiguous_format}
MOST_KERNELS = 8


def units() -> list[Unit]:
    """Return a unit for each network and precision."""
    return [
        Unit(PART, f"kernels-{network}-{precision}", partial(measure, network, precision))
        for network in MEASURED
        for precision in PRECISIONS
    ]


def measure(network: str, precision: Precision, settings: Settings) -> Result:
    """Return the milliseconds, kernels and launches of a step in each layout."""
    batch, size = (8, QUICK_SIZES[network]) if settings.quick else (BATCH, NETWORKS[network])
    prepare_process()
    device = torch.device(settings.device)
    set_precision(precision, device)
    words = [
        "method=fedavg", f"model={network}", f"batch_size={batch}", f"device={settings.device}",
        f"runtime.precision={precision}",
    ]  # fmt: skip
    y = torch.randint(CLASSES, (batch,), device=device)
    found: Result = {"network": network, "size": size, "batch": batch, "precision": precision}
    found["layouts"] = {}
    for name, layout in LAYOUTS.items():
        made = trainer(words, device, layout)
        x = torch.randn(batch, 3, size, size, device=device).to(memory_format=layout)
        one = timed(made, x, y, settings)
        torch.backends.cudnn.benchmark = True
        one["searched"] = timed(made, x, y, settings)["milliseconds"]
        torch.backends.cudnn.benchmark = False
        found["layouts"][name] = one | profiled(made, x, y)
    return found


def timed(made: LocalTrainer, x: Tensor, y: Tensor, settings: Settings) -> Result:
    """Return the milliseconds of a step, and those until all its kernels are launched."""
    steps = 1 if settings.quick else 40
    meter = LossMeter()
    for _ in range(max(1, steps // 4)):
        made.step(x, y, meter)
    synchronize(x.device)
    started = time.perf_counter()
    for _ in range(steps):
        made.step(x, y, meter)
    launched = time.perf_counter() - started
    synchronize(x.device)
    whole = time.perf_counter() - started
    return {"milliseconds": 1e3 * whole / steps, "launching": 1e3 * launched / steps}


def profiled(made: LocalTrainer, x: Tensor, y: Tensor) -> Result:
    """Return the milliseconds of a step's kernels, their number, and the longest of them."""
    steps, meter = 5, LossMeter()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as watched:
        for _ in range(steps):
            made.step(x, y, meter)
        synchronize(x.device)
    rows = [
        {"name": event.key, "calls": event.count / steps, "milliseconds": spent / 1e3 / steps}
        for event in watched.key_averages()
        if (spent := microseconds(event, x.is_cuda))
    ]
    rows.sort(key=lambda row: -row["milliseconds"])
    return {
        "busy": sum(row["milliseconds"] for row in rows),
        "launches": sum(row["calls"] for row in rows),
        "kernels": rows[:MOST_KERNELS],
    }


def microseconds(event: Any, on_gpu: bool) -> float:
    """Return the time of a kernel, or of an operation on a CPU; 0 for an event of another kind."""
    if on_gpu:
        return float(event.self_device_time_total) if event.device_type.name == "CUDA" else 0.0
    return float(event.self_cpu_time_total)


def report(results: dict[str, Result]) -> str:
    """Return a table of the layouts, and one of the longest kernels."""
    measured = [
        (f"{one['network']}, {one['precision']}, {name}", layout)
        for one in results.values()
        for name, layout in one["layouts"].items()
    ]
    layouts = [
        {
            "step": name, "ms": f"{one['milliseconds']:.2f}",
            "ms with search": f"{one['searched']:.2f}",
            "ms of launching": f"{one['launching']:.2f}",
            "ms of kernels": f"{one['busy']:.2f}", "kernels": f"{one['launches']:.0f}",
        }
        for name, one in measured
    ]  # fmt: skip
    longest = [
        {
            "step": name, "kernel": kernel["name"][:80].replace("|", "/"),
            "calls": f"{kernel['calls']:g}", "ms": f"{kernel['milliseconds']:.2f}",
        }
        for name, one in measured
        for kernel in one["kernels"]
    ]  # fmt: skip
    return "\n\n".join(filter(None, [table(layouts), table(longest)]))
