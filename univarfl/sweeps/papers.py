"""``univarfl papers``: published tables that ``conf/sweep/`` reproduces, and their cost."""

import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence

import pandas as pd
import torch
from rich.console import Console
from rich.progress import track
from torch.utils.flop_counter import FlopCounterMode

from server_app.config.choices import SWEEPS
from server_app.config.composition import compose_experiment
from server_app.config.experiment import Experiment
from task.analysis.cost import training_cost
from task.models.cnn import Cnn
from task.training.device import choose_device, prepare_process, set_precision
from univarfl.records.published import numbers_of, published_numbers
from univarfl.sweeps.cells import cells_of
from univarfl.sweeps.paper_tables import sweep_of, tables_named, varied

# Training images and classes of each data set, as in its source (task/data/sources); of
# ImageNet-200 those of data.subset=release.
SIZES = {
    "cifar10": (50_000, 10), "cifar100": (50_000, 100), "stl10": (5_000, 10),
    "tiny_imagenet": (100_000, 200), "imagenet200": (100_000, 200), "pacs": (8_871, 7),
    "office_home": (13_768, 65), "ham10000": (8_060, 7), "mnist": (60_000, 10),
}  # fmt: skip
STEPS = 5
COUNTED: dict[str, float] = {}


def papers(names: Sequence[str]) -> pd.DataFrame:
    """Return one row per published number: its sweep, settings and value, and a run's cost.

    Args:
        names: the sweeps; empty for all.

    Raises:
        ConfigError: there is no such sweep, or it makes a figure.
    """
    names = tables_named(names)
    rate = flops_per_second(compose_experiment([]))
    quiet = not sys.stderr.isatty()
    shown = track(names, "composing", console=Console(stderr=True), disable=quiet)
    return pd.DataFrame([row for name in shown for row in rows_of(name, rate)])


def rows_of(name: str, rate: float) -> Iterator[dict[str, object]]:
    """Yield the rows of one sweep, for one seed."""
    for cell in cells_of([f"{SWEEPS}={name}", "seed=0"]):
        run = cell.experiment
        assert run is not None
        config = run.model_dump()
        for table, number in published_numbers(config, run.published):
            if sweep_of(table) != name:
                continue
            flops = training_flops(run)
            split = {"partition": run.partition["name"], "alpha": run.partition.get("alpha")}
            for measured, value in numbers_of(number).items():
                yield {
                    "sweep": name, "data": run.data["name"],
                    "method": run.method["name"], "with": varied(split, number),
                    "number": measured, "published": value,
                    "PFLOP a run": short(flops / 1e15), "hours a run": short(flops / rate / 3600),
                }  # fmt: skip


def short(value: float) -> float:
    """Return a number with one decimal, or with two digits if it is below 1."""
    return round(value, 1) if value >= 1 else float(f"{value:.2g}")


def training_flops(run: Experiment) -> float:
    """Return an estimate of the floating-point operations of a run's local training."""
    images, classes = SIZES[run.data["name"]]
    passes = images * (1 - run.validation_share) * run.local_epochs * run.rounds
    parts = json.dumps([run.method, run.model, run.data["image_size"], classes], sort_keys=True)
    return passes * run.participants / run.num_clients * flops_per_image(run, parts)


def flops_per_image(run: Experiment, parts: str) -> float:
    """Return the operations of a training step per image; counted once for equal `parts`."""
    if parts not in COUNTED:
        size, classes = json.loads(parts)[2:]
        COUNTED[parts] = training_cost(run, run.source().channels, size, classes).step
    return COUNTED[parts]


def flops_per_second(experiment: Experiment) -> float:
    """Return the operations per second of one process, measured on a cnn with 96x96 images."""
    prepare_process()
    device = choose_device(experiment.device)
    set_precision(experiment.runtime.precision, device)
    network = Cnn(3, 10, 256).to(device).to(memory_format=torch.channels_last)
    x = torch.randn(64, 3, 96, 96, device=device).to(memory_format=torch.channels_last)
    seconds = []
    with FlopCounterMode(display=False) as counter:
        network(x).logits.sum().backward()
    for _ in range(STEPS):
        started = time.perf_counter()
        network(x).logits.sum().backward()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds.append(time.perf_counter() - started)
    return float(counter.get_total_flops() / statistics.median(seconds))
