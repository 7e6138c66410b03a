"""Peak memory of each worker under Flower and Ray, for any data set and for a large made one.

    uv run python -m tests.benchmarks.memory data=pacs data.root=DIRECTORY    (5 minutes, two cores)
    uv run python -m tests.benchmarks.memory made=100000                      (15 minutes)

Trains one round of 16 clients with 2 and with 8 workers, and samples what the kernel says of their
processes. ``made=N`` writes N JPEG images of 64x64 into a temporary directory first. Measures;
asserts nothing. "own" is the memory that a worker took for itself (anonymous pages, Linux's
smaps_rollup); "resident" (RSS) adds the pages of files that it has read, the store's among them, of
which the machine has one copy and which it can drop.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import psutil
from PIL import Image

from server_app.composition import compose_experiment
from task.data.store import open_dataset

WORKERS = (2, 8)
MEGABYTE = 1e6
EXPERIMENT = (
    "partition=iid", "num_clients=16", "rho=0.5", "rounds=1", "local_epochs=1", "batch_size=128",
)  # fmt: skip


def make(count: int, root: Path) -> list[str]:
    """Write `count` images in ten classes; the overrides that name them."""
    generator = np.random.default_rng(0)
    for index in range(count):
        coarse = generator.integers(0, 256, (8, 8, 3), dtype=np.uint8)
        image = Image.fromarray(coarse).resize((64, 64), Image.Resampling.BILINEAR)
        path = root / f"class_{index % 10}" / f"{index:06}.jpg"
        path.parent.mkdir(exist_ok=True)
        image.save(path)
    return ["data=folder", f"data.root={root}"]


def workers_of(process: psutil.Process) -> list[psutil.Process]:
    """The Ray workers under a process that train; others are idle."""
    children = process.children(recursive=True)
    return [child for child in children if "ray::ClientAppActor" in "".join(child.cmdline()[:1])]


def anonymous(pid: int) -> float:
    """Bytes of memory that a process took for itself."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("Anonymous:"))
    return 1024.0 * int(line.split()[1])


def measure(words: Sequence[str], workers: int) -> dict[int, tuple[float, float]]:
    """Peak own and resident megabytes of each worker, by process id."""
    peaks: dict[int, tuple[float, float]] = {}
    with tempfile.TemporaryDirectory() as place:
        command = ["univarfl", "train", *words, f"federation.workers={workers}"]
        train = subprocess.Popen([*command, f"output_dir={place}"], stdout=subprocess.DEVNULL)
        while train.poll() is None:
            try:
                for worker in workers_of(psutil.Process(train.pid)):
                    own, resident = peaks.get(worker.pid, (0.0, 0.0))
                    now = worker.memory_info().rss
                    peaks[worker.pid] = max(own, anonymous(worker.pid)), max(resident, now)
            except (psutil.Error, OSError):
                pass  # it ended while it was looked at
            time.sleep(0.2)
    if train.returncode:
        raise SystemExit(f"{' '.join(command)} failed")
    return {pid: (own / MEGABYTE, resident / MEGABYTE) for pid, (own, resident) in peaks.items()}


def main(words: Sequence[str]) -> None:
    """Prepare the store, measure, and print the table."""
    with tempfile.TemporaryDirectory() as place:
        if words and words[0].startswith("made="):
            words = [*make(int(words[0].removeprefix("made=")), Path(place)), *words[1:]]
        overrides = [*words, *EXPERIMENT]
        dataset = open_dataset(compose_experiment(overrides).local().source())
        store = dataset.images.nbytes / MEGABYTE
        print(f"store: {len(dataset.images)} images, {store:.0f} MB")
        print("| workers | own, each (most) | resident, each | own, together |\n|---|---|---|---|")
        for workers in WORKERS:
            peaks = measure(overrides, workers)
            own, resident = (list(column) for column in zip(*peaks.values(), strict=True))
            print(
                f"| {len(peaks)} | {statistics.median(own):.0f} ({max(own):.0f}) MB "
                f"| {statistics.median(resident):.0f} MB | {sum(own):.0f} MB |",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:])
