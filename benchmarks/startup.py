"""Measure the start of ``univarfl train`` up to the end of round 1, and a deployed client's start.

    uv run python -m benchmarks.startup [OVERRIDE ...]        (two minutes)

Runs the command three times with one round, after all files were read once. Prints the median
second of each milestone: the start of Flower's and Ray's processes, and the run's own lines. Then
measures what a SuperNode's new process does for each message: it imports the ClientApp, prepares
model and data, and trains.
"""

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence

import psutil

REPEATS = 3
PROCESSES = {
    "Flower's SuperLink is started": "flower-superlink",
    "it is ready, and the experiment is checked": "bin/flwr run",
    "Flower starts the run": "flwr-simulation",
    "Ray starts": "gcs_server",
    "Ray starts the workers": "default_worker.py",
}
MESSAGE = """
import json, sys, time
began = time.perf_counter()
import client_app.handlers
from server_app.config.composition import compose_experiment
from task.training.worker import Worker
imported = time.perf_counter()
local = compose_experiment(sys.argv[1:]).local()
composed = time.perf_counter()
worker = Worker(local)
prepared = time.perf_counter()
worker.train(worker.initial_weights(), 1, 0)
trained = time.perf_counter()
worker.train(worker.initial_weights(), 1, 0)
again = time.perf_counter() - trained
seconds = [imported - began, prepared - composed, trained - prepared, again]
print(json.dumps(seconds))
"""
STEPS = ("imports", "model and data", "a client's first training", "a client's second training")
LINES = {"the workers have their model and data": "ready (", "round 1 is over": "round 1/1"}


def timeline(words: Sequence[str]) -> dict[str, float]:
    """Run the command, and return the seconds from its start to each milestone."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as place:
        command = ["univarfl", "train", "rounds=1", *words, f"output_dir={place}"]
        started = time.time()
        train = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        reader = threading.Thread(target=read, args=(train, started, found))
        reader.start()
        while train.poll() is None:
            with contextlib.suppress(psutil.Error):
                for process in psutil.Process(train.pid).children(recursive=True):
                    command_line = " ".join(process.cmdline())
                    for milestone, name in PROCESSES.items():
                        if name in command_line:
                            found.setdefault(milestone, process.create_time() - started)
            time.sleep(0.05)
        reader.join()
        found["the command ends"] = time.time() - started
    return found


def read(train: "subprocess.Popen[str]", started: float, found: dict[str, float]) -> None:
    """Note the seconds at which the lines of milestones are printed."""
    assert train.stdout is not None
    for line in train.stdout:
        for milestone, words in LINES.items():
            if words in line:
                found[milestone] = time.time() - started


def message(words: Sequence[str]) -> list[float]:
    """Return the seconds of each of the `STEPS` in a new process."""
    command = [sys.executable, "-c", MESSAGE, *words]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return list(json.loads(output))


def main(words: Sequence[str]) -> None:
    """Print both tables."""
    runs = [timeline(words) for _ in range(REPEATS)]
    print("| | second, median (least to most) |\n|---|---|")
    for milestone in [*PROCESSES, *LINES, "the command ends"]:
        seconds = [run[milestone] for run in runs if milestone in run]
        middle = statistics.median(seconds)
        print(f"| {milestone} | {middle:.1f} ({min(seconds):.1f} to {max(seconds):.1f}) |")
    print("\n| a fresh process | seconds, median |\n|---|---|")
    messages = [message(words) for _ in range(REPEATS)]
    for step, *times in zip(STEPS, *messages, strict=True):
        print(f"| {step} | {statistics.median(times):.1f} |")


if __name__ == "__main__":
    main(sys.argv[1:])
