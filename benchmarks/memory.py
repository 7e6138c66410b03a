"""Measure the peak memory of each worker under Flower and Ray.

    uv run python -m benchmarks.memory data=pacs data.root=DIRECTORY    (5 minutes, two cores)
    uv run python -m benchmarks.memory made=100000                      (15 minutes)

Trains one round of 8 of 16 clients with 2 and with 8 workers, and samples the memory of their
processes. ``made=N`` first writes N random JPEG images of 64x64 into a temporary directory. "own"
is a worker's anonymous memory. "resident" (RSS) adds the pages of files that it has read, such as
the image store's; the system can free these.
"""

import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.processes import MEGABYTE, watch
from server_app.config.composition import compose_experiment
from task.data.image_store.store import open_dataset

WORKERS = (2, 8)
EXPERIMENT = (
    "partition=iid", "num_clients=16", "rho=0.5", "rounds=1", "local_epochs=1", "batch_size=128",
)  # fmt: skip


def make(count: int, root: Path) -> list[str]:
    """Write `count` images in ten classes, and return the overrides that select them."""
    generator = np.random.default_rng(0)
    for index in range(count):
        coarse = generator.integers(0, 256, (8, 8, 3), dtype=np.uint8)
        image = Image.fromarray(coarse).resize((64, 64), Image.Resampling.BILINEAR)
        path = root / f"class_{index % 10}" / f"{index:06}.jpg"
        path.parent.mkdir(exist_ok=True)
        image.save(path)
    return ["data=folder", f"data.root={root}"]


def main(words: Sequence[str]) -> None:
    """Prepare the image store, measure, and print the table."""
    with tempfile.TemporaryDirectory() as place:
        if words and words[0].startswith("made="):
            words = [*make(int(words[0].removeprefix("made=")), Path(place)), *words[1:]]
        overrides = [*words, *EXPERIMENT]
        dataset = open_dataset(compose_experiment(overrides).local().source())
        store = dataset.images.nbytes / MEGABYTE
        print(f"store: {len(dataset.images)} images, {store:.0f} MB")
        print("| workers | own, each (most) | resident, each | own, together |\n|---|---|---|---|")
        for workers in WORKERS:
            peaks = watch([*overrides, f"federation.workers={workers}"])["worker"]
            own, resident = [peak.own for peak in peaks], [peak.resident for peak in peaks]
            print(
                f"| {len(peaks)} | {statistics.median(own):.0f} ({max(own):.0f}) MB "
                f"| {statistics.median(resident):.0f} MB | {sum(own):.0f} MB |",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:])
