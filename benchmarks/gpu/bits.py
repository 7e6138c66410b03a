"""Does the product run on the device, with equal bits, and in which precision?

Two experiments of two rounds, each with one and with two workers: their hashes must be equal. Then
convolutions, matrix products and the default experiment in float32 and in TF32.
"""

import tempfile
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)

from benchmarks.gpu.tables import table
from benchmarks.gpu.unit import Result, Settings, Unit
from server_app.config.composition import compose_experiment
from server_app.runs.records.run_record import read_record
from univarfl.engines.train import train_experiment

PART = "bits"
EXPERIMENTS, WORKERS = ("default", "pacs"), (1, 2)
PRECISIONS = ("float32", "tf32")


def units() -> list[Unit]:
    """Return a unit for each experiment and number of workers, and one for each precision."""
    runs = [
        Unit(PART, f"bits-{name}-{workers}", partial(hashed, name, workers), name == "pacs")
        for name in EXPERIMENTS
        for workers in WORKERS
    ]
    return [
        *runs,
        *(Unit(PART, f"bits-{name}", partial(rounded, name)) for name in PRECISIONS),
    ]


def hashed(name: str, workers: int, settings: Settings) -> Result:
    """Train an experiment for two rounds, and return its hash and what it took."""
    words = settings.pacs_words() if name == "pacs" else []
    words += ["local_epochs=1"] if settings.quick else []
    return trained([*words, "rounds=2", f"federation.workers={workers}"], settings)


def trained(words: list[str], settings: Settings) -> Result:
    """Train an experiment in this process, and return its hash, accuracy and seconds."""
    with tempfile.TemporaryDirectory() as place, redirect_stdout(StringIO()):
        words = [*words, *settings.run_words(Path(place))]
        record = read_record(train_experiment(compose_experiment(words), words))
    return {
        "model_sha256": record.model_sha256,
        "accuracy": record.results.test["accuracy"],
        "seconds": record.seconds.rounds,
        "device": record.workers[0].device,
    }


def rounded(precision: str, settings: Settings) -> Result:
    """Return errors against float64, and the default experiment's hash, in one precision."""
    words = [f"runtime.precision={precision}", *(["local_epochs=1"] if settings.quick else [])]
    run = trained([*words, "rounds=2"], settings)  # sets what the product sets in a process
    device = torch.device(settings.device)
    return {
        "precision": precision,
        "model_sha256": run["model_sha256"],
        "convolutions": torch.backends.cudnn.allow_tf32,
        "matrix_products": torch.backends.cuda.matmul.allow_tf32,
        "convolution_error": convolution_error(device),
        "matrix_product_error": matrix_product_error(device),
    }


def convolution_error(device: torch.device) -> float:
    """Return the relative error of a 3x3 convolution in float32 against float64."""
    x, kernel = torch.randn(32, 64, 24, 24, device=device), torch.randn(64, 64, 3, 3, device=device)
    return relative_error(F.conv2d(x, kernel), F.conv2d(x.double(), kernel.double()))


def matrix_product_error(device: torch.device) -> float:
    """Return the relative error of a matrix product in float32 against float64."""
    a, b = (torch.randn(512, 512, device=device) for _ in range(2))
    return relative_error(a @ b, a.double() @ b.double())


def relative_error(found: torch.Tensor, exact: torch.Tensor) -> float:
    """Return the length of the difference over the length of the exact values."""
    return float((found.double() - exact).norm() / exact.norm())


def report(results: dict[str, Result]) -> str:
    """Return the hashes by experiment and workers, and the table of precisions."""
    runs, verdicts = [], []
    for name in EXPERIMENTS:
        own = {workers: results.get(f"bits-{name}-{workers}") for workers in WORKERS}
        found = {workers: result for workers, result in own.items() if result}
        runs += [
            {
                "experiment": name, "workers": workers, "device": one["device"],
                "SHA-256": one["model_sha256"][:16], "test accuracy": f"{one['accuracy']:.3f}",
                "seconds": f"{one['seconds']:.1f}",
            }
            for workers, one in found.items()
        ]  # fmt: skip
        if len(found) == len(WORKERS):
            equal = len({one["model_sha256"] for one in found.values()}) == 1
            verdicts.append(f"{name}: bits are {'equal' if equal else 'NOT EQUAL'}.")
    precisions = [
        {
            "runtime.precision": one["precision"], "TF32 in convolutions": one["convolutions"],
            "TF32 in matrix products": one["matrix_products"],
            "error of a convolution": f"{one['convolution_error']:.1e}",
            "error of a matrix product": f"{one['matrix_product_error']:.1e}",
            "SHA-256 of the default experiment": one["model_sha256"][:16],
        }
        for one in results.values() if "convolution_error" in one
    ]  # fmt: skip
    return "\n\n".join(filter(None, [table(runs), "\n".join(verdicts), table(precisions)]))
