"""Every method on digits: final test accuracy at two skews, three seeds.

    uv run python -m tests.benchmarks.methods_on_digits [DIRECTORY]     (an hour on two cores)

Runs ``univarfl train`` for each, two at a time, keeps the records in DIRECTORY (default
runs/methods_on_digits), goes on where it was ended, and prints the README's tables: mean and
standard deviation over seeds 0 to 2. Measures; asserts nothing.
"""

import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from shutil import rmtree

from server_app.choices import choices
from server_app.recorder import read_record
from tests.conftest import SMALL_RESNET, model_for

ALPHAS = ("0.3", "0.05")
SEEDS = ("0", "1", "2")
METHODS = choices()["method"]
NEED_BLOCKS = [name for name in METHODS if model_for(name)]
RESNET = (*SMALL_RESNET, "rounds=6")
SETTINGS: dict[str, tuple[tuple[str, ...], list[str]]] = {
    "cnn, 32x32": ((), [name for name in METHODS if name not in NEED_BLOCKS]),
    "resnet56, 8x8, 6 rounds": (RESNET, ["fedavg", *NEED_BLOCKS]),
}

Job = tuple[str, str, str, str]


def jobs() -> Iterator[Job]:
    """Setting, method, alpha and seed of every run."""
    for setting, (_, methods) in SETTINGS.items():
        for seed, method, alpha in product(SEEDS, methods, ALPHAS):
            yield setting, method, alpha, seed


def directory(place: Path, job: Job) -> Path:
    """Where a run's record is kept."""
    setting, method, alpha, seed = job
    return place / f"{setting.split(',')[0]}-{method}-{alpha}-{seed}"


def run(place: Path, job: Job) -> None:
    """Train, unless the record says it has been done."""
    target = directory(place, job)
    if (target / "run.json").exists() and read_record(target)["status"] == "completed":
        return
    rmtree(target, ignore_errors=True)
    setting, method, alpha, seed = job
    words = [f"method={method}", f"alpha={alpha}", f"seed={seed}", *SETTINGS[setting][0]]
    place_words = [f"output_dir={place}", f"run_id={target.name}"]
    command = ["univarfl", "train", "engine=inprocess", *words, *place_words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(" ".join(words), (done.stdout + done.stderr).strip().split("\n")[-4][:80], flush=True)


def cell(place: Path, setting: str, method: str, alpha: str) -> str:
    """Mean and standard deviation over the seeds."""
    found = [
        read_record(directory(place, (setting, method, alpha, seed)))["results"]["test"]["accuracy"]
        for seed in SEEDS
    ]
    return f"{statistics.mean(found):.3f} ± {statistics.stdev(found):.3f}"


def main(words: Sequence[str]) -> None:
    """Run what is missing, then print the tables."""
    place = Path(words[0] if words else "runs/methods_on_digits").absolute()
    place.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda job: run(place, job), jobs()))
    for setting, (_, methods) in SETTINGS.items():
        print(f"\n| {setting} | " + " | ".join(f"alpha {alpha}" for alpha in ALPHAS) + " |")
        print("|---|" + "---|" * len(ALPHAS))
        for method in methods:
            cells = " | ".join(cell(place, setting, method, alpha) for alpha in ALPHAS)
            print(f"| {method} | {cells} |")


if __name__ == "__main__":
    main(sys.argv[1:])
