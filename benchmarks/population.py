"""Measure what a run costs with 10 to 100,000 clients, of whom 10, 100 or 1,000 train in a round.

    uv run python -m benchmarks.population                   (ten minutes, two cores)
    uv run python -m benchmarks.population CLIENTS ...       (for these numbers of clients)
    uv run python -m benchmarks.population write             (from the saved record, in seconds)

Each client has 20 generated images of 8x8, and trains `linear` for one epoch. So the costs of the
federation show. Runs with FedAvg are in one process (``federation.workers=1``), and with two worker
processes. Runs with FedBuff are in one process: 1,000 clients train at a time on simulated devices
that are available for 20 hours a day, and a round is 500 updates. Start-up is the time from the
command to round 0, with the images and the partition in the cache. Of `ROUNDS` rounds, the first
and the last are left out, and the median is reported. Memory is the peak of a process's anonymous
pages (smaps_rollup): pages of mapped files, which processes share, do not count. The measurements
are saved in benchmarks/records/population.json.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import psutil

from benchmarks.processes import anonymous
from benchmarks.results import PICTURES, RECORDS, replace_part
from benchmarks.rounds import round_seconds
from tests.processes import UNIVARFL
from univarfl.report.write import markdown

CLIENTS, PARTICIPANTS, WORKERS = (10, 1_000, 10_000, 100_000), (10, 100, 1_000), (1, 2)
ROUNDS, IMAGES, PAUSE = 5, 20, 0.05
CASE = ("strategy", "clients", "participants", "workers")
GROUPED = ("strategy", "participants", "workers")
RECORD = RECORDS / "population.json"
LEFT_OUT = (".safetensors", ".png", ".log")  # of a record's size
FEDBUFF = (
    "strategy=fedbuff", "strategy.buffer_size=500", "participation=available", "clock=virtual",
    "clock.available_hours=20",
)  # fmt: skip
EXPERIMENT = (
    "data=generated", "data.image_size=8", "model=linear", "method=fedavg", "device=cpu",
    "federation.workers=1", f"rounds={ROUNDS}", f"evaluate_every={ROUNDS}",
    "watch.tensorboard=false",
)  # fmt: skip

Result = dict[str, Any]


def main(words: Sequence[str]) -> None:
    """Measure and save, unless the saved record is asked for; write the page."""
    if words[:1] != ["write"]:
        counts = [int(word) for word in words] or CLIENTS
        for result in measurements(counts):
            save(result)
    write(json.loads(RECORD.read_text()))


def save(result: Result) -> None:
    """Add a measurement to the saved record, in the place of an earlier one of the same case."""
    saved = json.loads(RECORD.read_text()) if RECORD.exists() else []
    found = {tuple(each[name] for name in CASE): each for each in [*saved, result]}
    RECORD.write_text(json.dumps([found[case] for case in sorted(found)], indent=1) + "\n")


def measurements(counts: Sequence[int]) -> Iterator[Result]:
    """Yield the measurement of each number of clients, participants and workers."""
    for clients in counts:
        data = [f"num_clients={clients}", f"data.num_images={IMAGES * clients}"]
        measure([*data, f"rho={10 / clients}"])  # so that the images are in the store
        for participants in (each for each in PARTICIPANTS if each <= clients):
            rho = participants / clients
            cases: list[tuple[str, int, Sequence[str]]] = [
                ("FedAvg", workers, ()) for workers in WORKERS
            ]
            if participants == max(PARTICIPANTS):
                cases.append(("FedBuff", 1, FEDBUFF))
            for strategy, workers, words in cases:
                more = [*data, f"rho={rho}", f"federation.workers={workers}", *words]
                head = dict(zip(CASE, (strategy, clients, participants, workers), strict=True))
                yield (result := {**head, **measure(more)})
                print(result, file=sys.stderr, flush=True)


def measure(words: Sequence[str]) -> Result:
    """Run once, and return its seconds, megabytes and bytes.

    Raises:
        SystemExit: the run failed.
    """
    with tempfile.TemporaryDirectory() as place:
        command = [UNIVARFL, "train", *EXPERIMENT, *words, f"output_dir={place}"]
        began, start_up, checkpoint = time.monotonic(), None, 0
        train = psutil.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        server = worker = 0.0
        while train.poll() is None:
            if start_up is None and any(Path(place).glob("*/rounds.csv")):
                start_up = time.monotonic() - began
            try:
                server = max(server, anonymous(train.pid))
                for child in train.children(recursive=True):
                    worker = max(worker, anonymous(child.pid))
                for path in Path(place).glob("*/checkpoints/*.safetensors"):
                    checkpoint = max(checkpoint, path.stat().st_size)
            except (psutil.Error, OSError, ValueError):
                pass  # a process ended, or a file was deleted, meanwhile
            time.sleep(PAUSE)
        if train.returncode:
            raise SystemExit(f"{' '.join(map(str, command))} failed")
        (directory,) = Path(place).iterdir()
        seconds = round_seconds(directory)
        files = [path for path in directory.rglob("*") if path.is_file()]
        record = sum(path.stat().st_size for path in files if path.suffix not in LEFT_OUT)
    return {
        "start-up, s": start_up,
        "round, s": statistics.median(seconds[1:-1]),
        "server, MB": server,
        "worker, MB": worker or None,
        "record, kB": record / 1e3,
        "checkpoint, kB": checkpoint / 1e3,
    }


def write(found: Sequence[Result]) -> None:
    """Write the table and the picture of the page."""
    table = pd.DataFrame(found)
    digits = {"start-up, s": 1, "round, s": 2, "server, MB": 0, "worker, MB": 0}
    shown = table.copy()
    for name in table.columns[len(CASE) :]:
        form = f"{{:.{digits.get(name, 0)}f}}"
        shown[name] = [form.format(value) if pd.notna(value) else "" for value in table[name]]
    draw(table)
    command = "`python -m benchmarks.population`"
    replace_part("population", f"{markdown(shown)}\n\nMade by {command}.")


def draw(table: pd.DataFrame) -> None:
    """Save the picture: seconds a round and the server's memory by the number of clients."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    for plot, column in zip(axes, ("round, s", "server, MB"), strict=True):
        for (strategy, participants, workers), rows in table.groupby(list(GROUPED)):
            style = "-" if workers == 1 else "--"
            label = (
                f"{strategy}, {participants} participants, {workers} worker{'s' * (workers > 1)}"
            )
            plot.plot(rows["clients"], rows[column], style, marker="o", label=label)
        plot.set(xlabel="clients", ylabel=column, xscale="log")
        plot.set_ylim(0, 1.15 * table[column].max())
        plot.grid(alpha=0.3)
    axes[1].legend(frameon=False, fontsize=8, loc="center")  # below the lines there is room
    figure.savefig(PICTURES / "population.png", dpi=100)
    plt.close(figure)


if __name__ == "__main__":
    main(sys.argv[1:])
