"""PACS as published: 60 rounds, batches of 128, 96x96, FedUV's release settings, one seed.

The papers name two networks for PACS. `networks` trains FedAvg with each, and UniVarFL with the
`cnn`; `methods` trains UniVarFL and FedUV with the network that came nearer to the published 62 %;
`augmentation` trains FedAvg with two stronger augmentations. The runs of a unit share the GPU (with
NVIDIA's Multi-Process Service where it is installed). An interrupted run is continued by the next
call, so a unit takes as many calls as it needs.

Each final model is read in four ways: with batch norm's averaged statistics and with those of all
training images, on test images and on training images. Published test images that were among the
training images would show as a published accuracy near that on training images.
"""

import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.gpu.mps import mps_if_installed
from benchmarks.gpu.tables import table
from benchmarks.gpu.unit import Result, Settings, Unit
from benchmarks.norm_statistics import set_statistics
from server_app.aggregation.weights import Weights, to_tensors
from server_app.config.composition import compose_experiment
from server_app.config.resuming import whole_words
from server_app.runs.records.run_record import read_record
from task.training.evaluation import evaluate
from task.training.worker import Worker
from univarfl.engines.local.processes import CONTEXT, warm_up
from univarfl.engines.train import train_experiment
from univarfl.records.reader import read_run
from univarfl.records.trained import final_weights, local_config_of

PART = "pacs"
WORDS = ("protocol=feduv", "runtime=graphed", "runtime.precision=tf32", "seed=0")
RESNET = ("model=resnet18", "local_epochs=2")
RUNS = {
    "fedavg-cnn": ("method=fedavg",),
    "univarfl-cnn": ("method=univarfl",),
    "feduv-cnn": ("method=feduv",),
    "fedavg-resnet18": ("method=fedavg", *RESNET),
    "univarfl-resnet18": ("method=univarfl", *RESNET),
    "feduv-resnet18": ("method=feduv", *RESNET),
    "padding-12": ("method=fedavg", "local_epochs=5", "augmentation.padding=12"),
    "resized-crop": ("method=fedavg", "local_epochs=5", "augmentation=resized_crop"),
}
FIRST = ("fedavg-cnn", "univarfl-cnn", "fedavg-resnet18")
AUGMENTED = ("padding-12", "resized-crop")
PUBLISHED = 62.0  # FedAvg's accuracy, in %
QUICK = ("rounds=2", "local_epochs=1")
READINGS = "readings.json"


def units() -> list[Unit]:
    """Return the three units; see the module's description."""
    steps = {"networks": networks, "methods": methods, "augmentation": augmentation}
    return [
        Unit(PART, f"pacs-{name}", measure, needs_pacs=True, resumable=True)
        for name, measure in steps.items()
    ]


def networks(settings: Settings) -> Result:
    """Train FedAvg with both networks, and UniVarFL with the smaller."""
    return together(FIRST, settings)


def methods(settings: Settings) -> Result:
    """Train the methods with the network whose averaged model is nearer to the papers."""
    found = {network: read(f"fedavg-{network}", settings) for network in ("cnn", "resnet18")}
    nearer = min(found, key=lambda network: abs(found[network]["averaged"] - PUBLISHED))
    return together((f"univarfl-{nearer}", f"feduv-{nearer}"), settings)


def augmentation(settings: Settings) -> Result:
    """Train FedAvg with stronger augmentations."""
    return together(AUGMENTED, settings)


def together(names: Sequence[str], settings: Settings) -> Result:
    """Train runs at the same time, each in a process of its own, and return their readings.

    Raises:
        RuntimeError: one of them failed.
    """
    warm_up(__name__)
    with mps_if_installed() as environment:
        members = [
            CONTEXT.Process(target=train_and_read, args=(name, settings, environment))
            for name in names
        ]
        try:
            for member in members:
                member.start()
            for member in members:
                member.join()
        finally:  # as Ctrl-C does, so that the runs can be continued
            for member in members:
                if member.is_alive():
                    member.terminate()
            for member in members:
                member.join()
    if failed := [name for name, member in zip(names, members, strict=True) if member.exitcode]:
        raise RuntimeError(f"failed: {', '.join(failed)}; see their run.log in {settings.folder}")
    return {name: read(name, settings) for name in names}


def place(name: str, settings: Settings) -> Path:
    """Return a run's directory."""
    return settings.folder / "runs" / f"pacs-{name}"


def train_and_read(name: str, settings: Settings, environment: dict[str, str]) -> None:
    """Train or continue a run in this process, and keep what its model reads."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.environ.update(environment)  # before CUDA is initialised, which reads it
    directory = place(name, settings)
    if not done(directory):
        train(name, directory, settings)
    worker = Worker(local_config_of(read_run(directory)))
    kept = directory / READINGS
    kept.write_text(json.dumps(readings(worker, final_weights(read_run(directory)))))


def done(directory: Path) -> bool:
    """Whether a run has ended."""
    return directory.exists() and read_record(directory).completed


def train(name: str, directory: Path, settings: Settings) -> None:
    """Start a run or continue it."""
    if (directory / "run.json").exists():
        words = whole_words([f"resume={directory}"])
    else:
        words = [
            *settings.pacs_words(), *WORDS, *RUNS[name], f"run_id={directory.name}",
            *settings.run_words(directory.parent), *(QUICK if settings.quick else ()),
        ]  # fmt: skip
    train_experiment(compose_experiment(words), words)


def readings(worker: Worker, weights: Weights) -> dict[str, float]:
    """Return the accuracy of one model in four ways, in %."""
    worker.load(to_tensors(weights))
    test = worker.images.index(worker.data.dataset.test)
    train = torch.cat([worker.images.index(one.train) for one in worker.data.clients.values()])
    averaged = evaluate(worker.model, worker.images, [test, train])
    set_statistics(worker.model, worker, train)
    exact = evaluate(worker.model, worker.images, [test, train])
    names = ("averaged", "averaged_train", "exact", "exact_train")
    scores = [100 * one.means()["accuracy"] for one in (*averaged, *exact)]
    return dict(zip(names, scores, strict=True))


def read(name: str, settings: Settings) -> Result:
    """Return a finished run's readings, seconds and hash."""
    directory = place(name, settings)
    record = read_record(directory)
    return {
        **json.loads((directory / READINGS).read_text()),
        "method": record.config["method"]["name"],
        "model": record.config["model"]["name"],
        "epochs": record.config["local_epochs"],
        "rounds": record.config["rounds"],
        "seconds": record.seconds.rounds,
        "model_sha256": record.model_sha256,
        "published": published(record.config["published"], record.config["method"]["name"]),
    }


def published(tables: list[Result], method: str) -> str:
    """Return the mean and deviation of a method in the first table that has it."""
    cells = (cell for one in tables for cell in one["cells"] if cell["at"]["method"] == method)
    return next((f"{cell['mean']} ± {cell['sd']}" for cell in cells), "")


def report(results: dict[str, Result]) -> str:
    """Return each run's readings beside the published accuracy."""
    rows = [
        {
            "run": name, "epochs": one["epochs"], "rounds": one["rounds"],
            "averaged": f"{one['averaged']:.1f}", "exact": f"{one['exact']:.1f}",
            "averaged, training images": f"{one['averaged_train']:.1f}",
            "exact, training images": f"{one['exact_train']:.1f}",
            "published (three runs)": one["published"], "seconds": f"{one['seconds']:.0f}",
            "SHA-256": one["model_sha256"][:16],
        }
        for unit in results.values() for name, one in unit.items()
    ]  # fmt: skip
    return table(rows)
