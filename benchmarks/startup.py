"""Measure the start of ``univarfl train``, up to the first round's line, and where the time goes.

    uv run python -m benchmarks.startup [BEFORE]        (12 minutes on two cores, 22 with BEFORE)

Trains two rounds of the default experiment, whose files were all read once, and prints the median
second of each milestone: the start of Flower's and Ray's processes, and the run's own lines. BEFORE
is another checkout, after ``uv sync`` in it; both are then measured in turns. All runs are made
with compiled files of every import (cached), and with none (not cached), as in a container that
sets PYTHONDONTWRITEBYTECODE. The floor is a program that starts Ray with two actors, which import
PyTorch. Last comes what a worker's process does at its start.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[1]
REPEATS, UNCACHED_REPEATS = 5, 3
COMMANDS = {
    "the default": [],
    "`engine=flower`": ["engine=flower"],
    "`federation.workers=1`": ["engine=inprocess", "federation.workers=1"],
}
PROCESSES = {
    "Flower's SuperLink is started": "flower-superlink",
    "Ray is started": "gcs_server",
    "`flwr run` submits the run": "bin/flwr run",
    "Flower starts the run": "flwr-simulation",
    "Ray starts the workers": "ray::ClientAppActor",
}
READY = "the workers have their model and data"
LINES = {
    READY: "ready (",
    "**round 1 is over**": "round 1/",
    "the results are written": "curves ",
}
END = "the command has ended"
FLOOR = """
import os
os.environ.update(RAY_prestart_worker_first_driver="0", RAY_enable_worker_prestart="0")
import ray
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
class Actor:
    def answer(self):
        import torch
        return float(torch.ones(1).sum())
actors = [ray.remote(num_cpus=1)(Actor).remote() for _ in range(2)]
ray.get([actor.answer.remote() for actor in actors])
print("ready (", flush=True)
os._exit(0)
"""
MESSAGE = """
import json, sys, time
began = time.perf_counter()
import client_app.handlers, client_app.work_unit
from server_app.config.composition import compose_experiment
from task.training.worker import Worker
imported = time.perf_counter()
local = compose_experiment([]).local()
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

Timeline = dict[str, float]


@contextmanager
def environment(cached: bool) -> Iterator[dict[str, str]]:
    """Yield an environment with compiled files of every import, or with none."""
    variables = {**os.environ}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as empty:
        if not cached:
            variables |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": empty}
        yield variables


def timeline(command: Sequence[str], variables: Mapping[str, str]) -> Timeline:
    """Run a command, and return the seconds from its start to each milestone."""
    found: Timeline = {}
    started = time.time()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=variables, cwd=tempfile.gettempdir()
    )
    reader = threading.Thread(target=read, args=(process, started, found))
    reader.start()
    while process.poll() is None:
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(process.pid).children(recursive=True):
                line = " ".join(child.cmdline())
                for milestone, name in PROCESSES.items():
                    if milestone not in found and name in line and "supervisor.py" not in line:
                        found[milestone] = child.create_time() - started
        time.sleep(0.1)
    reader.join()
    found[END] = time.time() - started
    return found


def read(process: "subprocess.Popen[str]", started: float, found: Timeline) -> None:
    """Note the seconds at which the lines of milestones are printed."""
    assert process.stdout is not None
    for line in process.stdout:
        for milestone, words in LINES.items():
            if words in line:
                found.setdefault(milestone, time.time() - started)


def train(tree: Path, words: Sequence[str], variables: Mapping[str, str]) -> Timeline:
    """Return the timeline of a run of two rounds with a checkout's code."""
    with tempfile.TemporaryDirectory() as place:
        program = str(tree / ".venv" / "bin" / "univarfl")
        words = ["train", "rounds=2", *words, f"output_dir={place}"]
        return timeline([program, *words], variables)


def message(variables: Mapping[str, str]) -> list[float]:
    """Return the seconds of each of the `STEPS` in a new process."""
    command = [sys.executable, "-c", MESSAGE]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=variables)
    return list(json.loads(done.stdout))


def middle(values: Sequence[float]) -> str:
    """Return the median, the least and the most of some seconds."""
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def main(words: Sequence[str]) -> None:
    """Print a table for each command, the floor, and the start of a worker."""
    trees = {**({"before": Path(words[0]).absolute()} if words else {}), "after": ROOT}
    columns = list(product(trees, (True, False)))
    for title, overrides in COMMANDS.items():
        runs: dict[tuple[str, bool], list[Timeline]] = {column: [] for column in columns}
        for turn in range(-1, REPEATS):
            for name, cached in columns:
                if not cached and not 0 <= turn < UNCACHED_REPEATS:
                    continue  # the turn before the first compiles and reads the files
                with environment(cached) as variables:
                    found = train(trees[name], overrides, variables)
                if turn >= 0:
                    runs[name, cached].append(found)
        print_table(title, runs)
    for cached in (True, False):
        floor = []
        for _ in range(REPEATS):
            with environment(cached) as variables:
                floor.append(timeline([sys.executable, "-c", FLOOR], variables)[READY])
        print(f"\nfloor, {'' if cached else 'not '}cached: {middle(floor)}")
    with environment(True) as variables:
        messages = [message(variables) for _ in range(REPEATS)]
    print("\n| a fresh process | seconds, median |\n|---|---|")
    for step, *times in zip(STEPS, *messages, strict=True):
        print(f"| {step} | {statistics.median(times):.1f} |")


def print_table(title: str, runs: Mapping[tuple[str, bool], Sequence[Timeline]]) -> None:
    """Print the milestones of one command, a column for each checkout and state of the files."""
    heads = [f"{name}, {'' if cached else 'not '}cached" for name, cached in runs]
    print(f"\n| {title} | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}")
    for milestone in [*PROCESSES, *LINES, END]:
        cells = []
        for found in runs.values():
            seconds = [run[milestone] for run in found if milestone in run]
            cells.append(middle(seconds) if seconds else "")
        if any(cells):
            print(f"| {milestone} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
