"""FedAvg and UniVarFL on PACS as published: 60 rounds of 10 epochs, batch 128, 96x96, one seed.

Each run is started once; when its call's time is used up it is interrupted, and the next call
continues it with ``resume=``. So it needs as many calls as it takes.
"""

from functools import partial

from benchmarks.gpu.tables import table
from benchmarks.gpu.unit import Result, Settings, Unit
from server_app.config.composition import compose_experiment
from server_app.config.resuming import whole_words
from server_app.engines.train import train_experiment
from server_app.runs.records.record import read_record

PART = "pacs"
METHODS = ("fedavg", "univarfl")
QUICK = ("rounds=2", "local_epochs=1")


def units() -> list[Unit]:
    """Return a unit for each method."""
    return [
        Unit(PART, f"pacs-{method}", partial(measure, method), needs_pacs=True, resumable=True)
        for method in METHODS
    ]


def measure(method: str, settings: Settings) -> Result:
    """Start the run or continue it, and return its result."""
    place = settings.folder / "runs"
    directory = place / f"pacs-{method}"
    if (directory / "run.json").exists():
        words = whole_words([f"resume={directory}"])
    else:
        words = [
            *settings.pacs_words(), f"method={method}", "seed=0", f"run_id={directory.name}",
            *settings.run_words(place), *(QUICK if settings.quick else ()),
        ]  # fmt: skip
    if not directory.exists() or read_record(directory)["status"] != "completed":
        train_experiment(compose_experiment(words), words)
    record = read_record(directory)
    return {
        "method": method,
        "rounds": record["config"]["rounds"],
        "accuracy": record["results"]["test"]["accuracy"],
        "seconds": record["seconds"]["rounds"],
        "model_sha256": record["model_sha256"],
        "published": published(record["config"]["published"], method),
    }


def published(tables: list[Result], method: str) -> str:
    """Return the mean and deviation of a method in the first table that has it."""
    cells = (cell for one in tables for cell in one["cells"] if cell["at"]["method"] == method)
    return next((f"{cell['mean']} ± {cell['sd']}" for cell in cells), "")


def report(results: dict[str, Result]) -> str:
    """Return the accuracies beside the published ones."""
    rows = [
        {
            "method": one["method"], "rounds": one["rounds"],
            "test accuracy, %": f"{100 * one['accuracy']:.1f}",
            "published (three runs)": one["published"], "seconds": f"{one['seconds']:.0f}",
            "SHA-256": one["model_sha256"][:16],
        }
        for one in results.values()
    ]  # fmt: skip
    return table(rows)
