"""Measure the table of the clients of a long run, as CSV and as Parquet.

    uv run python -m benchmarks.clients_table [ROWS]    (20 seconds)

Writes the table of 1,000 clients in each round with the recorder that runs use, by default 500,000
rows and at least 11,000, and rewrites it as a completed run does. Prints the size and the seconds
to read it as ``univarfl.load_run(...).clients`` (median of five).
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import univarfl
from benchmarks.processes import MEGABYTE
from server_app.aggregation.client_update import ClientUpdate
from server_app.config.composition import compose_experiment
from server_app.runs.recorder import Recorder
from server_app.runs.records.tables import CLIENTS, MOST_ROWS_AS_CSV, PARQUET

ROWS, CLIENTS_A_ROUND, REPEATS = 500_000, 1000, 5


def seconds_of(work: Callable[[], object]) -> float:
    """Return the duration of a call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def updates(generator: np.random.Generator) -> list[ClientUpdate]:
    """Return what the clients of a round sent; one in a hundred fails."""
    found = []
    for client in range(CLIENTS_A_ROUND):
        loss, seconds = generator.random(2).tolist()
        images = int(generator.integers(20, 200))
        failed = "it took too long" if generator.random() < 0.01 else ""
        losses = {} if failed else {"ce": loss}
        found.append(ClientUpdate(client, "", "cpu", failed, images, seconds, losses))
    return found


def main(rows: int) -> None:
    """Write, rewrite and read the table, and print what that took."""
    least = MOST_ROWS_AS_CSV + CLIENTS_A_ROUND
    if rows < least:
        raise SystemExit(f"ROWS must be at least {least}; shorter tables are not rewritten")
    generator = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as place:
        words = ["method=fedavg", "engine=inprocess", "run_id=long", f"output_dir={place}"]
        recorder = Recorder(Path(place) / "long", compose_experiment(words))
        for at in range(1, rows // CLIENTS_A_ROUND + 1):
            recorder.round(at, {}, updates(generator))
        print("| file | MB | s to read |\n|---|---|---|")
        show(recorder.directory, CLIENTS)
        rewritten = seconds_of(recorder.compact_clients)
        recorder.complete()
        recorder.close()
        show(recorder.directory, PARQUET)
        print(f"\nrewriting took {rewritten:.1f} s")


def show(directory: Path, name: str) -> None:
    """Print the size of a table, and how long it takes to read."""
    size = (directory / name).stat().st_size / MEGABYTE
    times = [seconds_of(lambda: univarfl.load_run(directory).clients) for _ in range(REPEATS)]
    print(f"| {name} | {size:.1f} | {statistics.median(times):.2f} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS)
