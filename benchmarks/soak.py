"""Find leaks in a long run: memory, open files, threads and disk at round 100 and at the end.

    uv run python -m benchmarks.soak [ROUNDS]   (2000: half an hour on two cores)

A small network, few images and six clients that keep state (MOON), in one process and through
Flower and Ray. Every figure is a sum over the command's process and all of its descendants.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from server_app.runs.records.tables import count_rounds
from tests.chaos.trial import images_in
from tests.processes import UNIVARFL

EARLY = 100
WORDS = [
    "method=moon", "data=folder", "data.classes=[cat,dog,fox]", "data.image_size=32",
    "partition=iid", "num_clients=6", "local_epochs=1", "batch_size=8", "evaluate_every=50",
    "watch.tensorboard=false", "run_id=soak",
]  # fmt: skip
COLUMNS = ("MB of memory", "open files", "threads", "processes", "MB on disk")


def figures(process: psutil.Process, place: Path) -> list[float]:
    """Return the figures in `COLUMNS` for a process with its descendants, and for the disk."""
    memory = files = threads = count = 0
    for member in [process, *process.children(recursive=True)]:
        with suppress(psutil.Error):
            memory += member.memory_full_info().uss
            files += member.num_fds()
            threads += member.num_threads()
            count += 1
    disk = 0
    for path in place.rglob("*"):
        with suppress(OSError):
            disk += path.stat().st_size if path.is_file() else 0
    return [memory / 1e6, files, threads, count, disk / 1e6]


def measure(engine: str, rounds: int, place: Path) -> Iterator[tuple[int, list[float]]]:
    """Train, and yield rounds done and figures: at round `EARLY`, and at the end."""
    words = [*WORDS, f"data.root={images_in(place)}", f"engine={engine}", f"rounds={rounds}"]
    environment = {
        "UNIVARFL_RUNS": str(place / "runs"), "UNIVARFL_MEMORY": str(place / "memory"),
        "UNIVARFL_CACHE": str(place / "cache"), "TMPDIR": str(place), "HOME": str(place),
    }  # fmt: skip
    run = subprocess.Popen(
        [UNIVARFL, "train", *words], stdout=subprocess.DEVNULL, env={**os.environ, **environment}
    )
    process, early, last, done = psutil.Process(run.pid), False, [0.0], 0
    while run.poll() is None:
        time.sleep(1)
        done = count_rounds(place / "runs" / "soak")
        if EARLY <= done < rounds - 1:
            last = figures(process, place)
            if not early:
                yield done, last
                early = True
    if run.returncode:
        raise SystemExit(f"engine={engine}: the run failed; see above")
    yield done, last


def main() -> None:
    """Print the table of both engines."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    print(f"| engine | round | {' | '.join(COLUMNS)} | seconds |\n|---|---|{'---|' * 6}")
    for engine in ("inprocess", "flower"):
        with tempfile.TemporaryDirectory(prefix="s", dir="/tmp") as place:
            started = time.monotonic()
            for at, found in measure(engine, rounds, Path(place)):
                cells = " | ".join(f"{value:.0f}" for value in found)
                spent = time.monotonic() - started
                print(f"| {engine} | {at} | {cells} | {spent:.0f} |", flush=True)


if __name__ == "__main__":
    main()
