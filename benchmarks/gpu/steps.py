"""Step time of every method over FedAvg's, images a second, share of the peak, synchronizations.

A step is `LocalTrainer.step` on random images that are already on the device: forward, backward,
optimizer. The time is the median over blocks of steps, each timed until the device is done. In
eager mode every method takes a block a turn, in an order drawn for each turn. In the other modes
the methods are measured one after another, so that compiled code or a failure of one does not
affect the next. Operations are counted with `FlopCounterMode` in the eager step (convolutions and
matrix products; a multiplication with an addition is two), and serve the other modes as well.
"""

import statistics
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.gpu.chip import PRECISIONS, peak, synchronize
from benchmarks.gpu.tables import table
from benchmarks.gpu.unit import Result, Settings, Unit
from benchmarks.steps import runnable, trainer
from task.config import Precision
from task.errors import ConfigError
from task.training.device import prepare_process, set_precision
from task.training.loop import LocalTrainer
from task.training.losses import LossMeter

MODES = ("eager", "compiled")
NETWORKS = {"cnn": 96, "resnet18": 32, "resnet56": 32}  # side of the images, in pixels
QUICK_SIZES = {"cnn": 32, "resnet18": 16, "resnet56": 8}
QUICK_METHODS = ("fedavg", "mixup", "univarfl")  # on a CPU; on a GPU each method is tried
BATCHES, CLASSES = (128, 64), 10
SYNCHRONIZED = "called a synchronizing CUDA operation"

Step = Callable[[], None]


class Plan(NamedTuple):
    """How much is measured.

    Attributes:
        batch: images a batch.
        turns: how often each method is measured.
        steps: steps of a block, which is timed as a whole.
        warm_up: steps before the first measurement.
        counted: steps over which operations and synchronizations are averaged.
    """

    batch: int
    turns: int = 5
    steps: int = 6
    warm_up: int = 3
    counted: int = 5


def units(mode: str) -> list[Unit]:
    """Return a unit for each batch size, network and precision in one mode."""
    return [
        Unit(
            mode,
            f"steps-{mode}-{network}-{batch}-{precision}",
            partial(measure, mode, network, batch, precision),
        )
        for batch in BATCHES
        for network in NETWORKS
        for precision in PRECISIONS
    ]


def measure(
    mode: str, network: str, batch: int, precision: Precision, settings: Settings
) -> Result:
    """Measure every method.

    Returns:
        The sizes, and under "methods" for each method: milliseconds, operations, host
        synchronizations a step, or the reason why it cannot run.
    """
    size, plan = NETWORKS[network], Plan(batch)
    if settings.quick:
        size, plan = QUICK_SIZES[network], Plan(batch // 16, 1, 1, 1, 1)
    prepare_process()
    device = torch.device(settings.device)
    set_precision(precision, device)
    x = torch.randn(plan.batch, 3, size, size, device=device)
    x = x.to(memory_format=torch.channels_last)
    y = torch.randint(CLASSES, (plan.batch,), device=device)
    words = [f"model={network}", f"batch_size={plan.batch}", f"runtime.precision={precision}"]
    words += [f"device={settings.device}", f"runtime.compiled={str(mode == 'compiled').lower()}"]
    few = settings.quick and settings.device == "cpu"
    methods = list(QUICK_METHODS) if few else runnable(network)
    found: dict[str, Result] = {}
    for group in [methods] if mode == "eager" else [[method] for method in methods]:
        if mode == "compiled":
            torch.compiler.reset()
        found |= measure_together(group, words, mode, x, y, plan)
    sizes = {"network": network, "size": size, "batch": plan.batch, "precision": precision}
    return {**sizes, "methods": found}


def measure_together(
    methods: list[str], words: list[str], mode: str, x: Tensor, y: Tensor, plan: Plan
) -> dict[str, Result]:
    """Measure methods in turns."""
    found: dict[str, Result] = {}
    steps: dict[str, Step] = {}
    for method in methods:
        try:
            made = trainer([f"method={method}", *words], x.device)
            found[method] = counts(made, x, y, plan)
            steps[method] = step_of(made, mode, x, y, plan)
        except (ConfigError, RuntimeError) as error:
            reason = str(error).strip().split("\n")[0]
            found[method] = found.get(method, {}) | {"reason": reason}
    for method, seconds in block_seconds(steps, plan, x.device).items():
        found[method]["milliseconds"] = 1e3 * statistics.median(seconds)
        found[method]["quartiles"] = (1e3 * np.quantile(seconds, (0.25, 0.75))).tolist()
    return found


def step_of(made: LocalTrainer, mode: str, x: Tensor, y: Tensor, plan: Plan) -> Step:
    """Return a function that takes one step in a mode.

    Raises:
        RuntimeError: the mode cannot be used with this method or on this device.
    """
    step = partial(made.step, x, y, LossMeter())
    if mode == "compiled":
        made.forward.compile(x)
        if not made.forward.compiled:
            raise RuntimeError("the compiler failed")
    return step


def counts(made: LocalTrainer, x: Tensor, y: Tensor, plan: Plan) -> Result:
    """Return the operations and the host synchronizations of an eager step."""
    for _ in range(plan.warm_up):
        made.step(x, y, LossMeter())
    with FlopCounterMode(display=False) as counter:
        for _ in range(plan.counted):
            made.step(x, y, LossMeter())
    operations = counter.get_total_flops() / plan.counted
    return {"operations": operations, "synchronizations": synchronizations(made, x, y, plan)}


def synchronizations(made: LocalTrainer, x: Tensor, y: Tensor, plan: Plan) -> float | None:
    """Return how often a step waits for the device; None without CUDA."""
    if not x.is_cuda:
        return None
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(plan.counted):
                made.step(x, y, LossMeter())
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return sum(SYNCHRONIZED in str(one.message) for one in caught) / plan.counted


def block_seconds(
    steps: dict[str, Step], plan: Plan, device: torch.device
) -> dict[str, list[float]]:
    """Return the seconds a step of each block by method; the first block warms up."""
    found: dict[str, list[float]] = {method: [] for method in steps}
    generator = np.random.default_rng(0)
    for turn in range(1 + plan.turns):
        for method in generator.permutation(list(steps)):
            synchronize(device)
            started = time.perf_counter()
            for _ in range(plan.steps):
                steps[method]()
            synchronize(device)
            if turn:
                found[method].append((time.perf_counter() - started) / plan.steps)
    return found


def report(chip: Result | None, results: dict[str, Result]) -> str:
    """Return a table for each network and batch size, and the methods that cannot run."""
    groups: dict[str, dict[str, Result]] = {}
    for one in results.values():
        title = f"### {one['network']}, {one['size']}x{one['size']}, batch {one['batch']}"
        groups.setdefault(title, {})[one["precision"]] = one
    note = "A cell: milliseconds a step, over FedAvg's, images a second, share of the chip's peak."
    parts = ["\n\n".join([title, group_report(chip, group)]) for title, group in groups.items()]
    return "\n\n".join([note, *parts]) if parts else ""


def group_report(chip: Result | None, group: dict[str, Result]) -> str:
    """Return the table of one network and batch size by precision, with reasons of empty cells."""
    reasons: dict[str, set[str]] = {}
    rows: dict[str, dict[str, str]] = {}
    for precision, one in group.items():
        for method, found in one["methods"].items():
            row = rows.setdefault(method, {"method": method})
            row[precision] = cell(one["methods"], method, one["batch"], precision, chip)
            if found.get("synchronizations") is not None:
                row["synchronizations a step"] = f"{found['synchronizations']:g}"
            if "reason" in found:
                reasons.setdefault(found["reason"], set()).add(method)
    refused = "\n".join(f"- {', '.join(sorted(who))}: {why}" for why, who in reasons.items())
    return "\n\n".join(filter(None, [table(list(rows.values())), refused]))


def cell(
    methods: dict[str, Result], method: str, batch: int, precision: str, chip: Result | None
) -> str:
    """Return one method's numbers in one precision; empty if it was not measured."""
    found = methods[method]
    if "milliseconds" not in found:
        return ""
    spent, base = found["milliseconds"], methods.get("fedavg", {}).get("milliseconds")
    ratio = f"{spent / base:.2f}x" if base else "no FedAvg"
    shown = f"{spent:.2f} ms, {ratio}, {1e3 * batch / spent:,.0f}/s"
    if chip is None:
        return shown
    share = found["operations"] / (spent / 1e3) / (1e12 * peak(chip, precision)[0])
    return f"{shown}, {share:.1%}"
