"""Run an experiment in its own processes under a schedule, and check what it leaves."""

import contextlib
import csv
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from client_app.app import app as client_app
from server_app.config.composition import compose_experiment
from server_app.config.resuming import whole_words
from server_app.runs.checkpoint import checkpoints, read_checkpoint
from server_app.runs.records.run_record import read_entries
from server_app.runs.records.tables import count_rounds
from task.errors import ConfigError, RunError
from tests.chaos.schedule import ROUNDS, SIMULATED, Interruption, Schedule
from tests.chaos.tampering import ChaoticGrid
from univarfl.engines import inprocess
from univarfl.engines.local.processes import CONTEXT
from univarfl.engines.train import train_experiment

INTERRUPTED, FAILED, REFUSED = 130, 1, 2
SECONDS = 240.0
ROOMY = "64m"


def child(words: list[str], faults: list[tuple[int, int, str]], place: Path) -> None:
    """Train in this process as ``univarfl train`` does, on a grid with faults."""
    with (place / "said.txt").open("a") as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.environ["UNIVARFL_MEMORY"] = str(place / "memory")
    os.environ["UNIVARFL_CACHE"] = str(place.parent / "cache")
    log = place / "bad.jsonl"

    def grid_of(workers: int, _device: str) -> ChaoticGrid:
        """Keep all workers in this process, in which replies can be changed."""
        return ChaoticGrid(client_app, workers, faults, log)

    setattr(inprocess, "grid_of", grid_of)  # noqa: B010  (its type is another)
    try:
        train_experiment(compose_experiment(words), words)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except RunError as error:
        print(error, flush=True)
        sys.exit(FAILED)
    except ConfigError as error:
        print(error, flush=True)
        sys.exit(REFUSED)


class Sufferer:
    """One run under a schedule.

    Args:
        schedule: the faults and interruptions.
        images: the data set's directory.
        place: the run's own directory.
        disk: whether its records are on a small disk of their own, which can be filled.
    """

    def __init__(self, schedule: Schedule, images: Path, place: Path, disk: bool) -> None:
        self.schedule, self.place, self.disk = schedule, place, disk
        self.runs = place / "runs"
        self.runs.mkdir(parents=True)
        self.directory = self.runs / "run"
        self.words = [
            *schedule.words, f"data.root={images}", f"output_dir={self.runs}", "run_id=run",
        ]  # fmt: skip

    def suffer(self) -> list[str]:
        """Run until it ends; return a description of everything that is wrong."""
        if self.disk:
            subprocess.run(
                ["mount", "-t", "tmpfs", "-o", f"size={ROOMY}", "x", self.runs], check=True
            )
        try:
            code = self._live()
            return [f"{self.schedule.seed}: {wrong}" for wrong in self._wrongs(code)]
        finally:
            if self.disk:
                self._keep_record()

    def _keep_record(self) -> None:
        kept = self.place / "record"
        subprocess.run(["cp", "-r", self.runs, kept], check=True)
        subprocess.run(["umount", self.runs], check=True)
        self.runs.rmdir()
        kept.rename(self.runs)

    def _live(self) -> int:
        code = -1
        for interruption in [*self.schedule.interruptions, None]:
            words = self.words
            if code != -1:
                words = whole_words([f"resume={self.directory}"])
            process = self._start(words)
            if interruption is not None:
                self._interrupt(interruption, process)
            process.join(SECONDS)
            if process.exitcode is None:
                process.kill()
                process.join()
                return -2
            if self.disk:
                subprocess.run(["mount", "-o", f"remount,size={ROOMY}", self.runs], check=True)
            code = process.exitcode
            if self.status() == "completed" or not (self.directory / "run.json").exists():
                break
            if interruption is None or (code == FAILED and "disk" not in self._reason()):
                break
        return code

    def _start(self, words: list[str]) -> ForkServerProcess:
        faults = [(fault.round, fault.client, fault.kind) for fault in self.schedule.faults]
        process: ForkServerProcess = CONTEXT.Process(target=child, args=(words, faults, self.place))
        process.start()
        return process

    def _interrupt(self, interruption: Interruption, process: ForkServerProcess) -> None:
        deadline = time.monotonic() + SECONDS
        while process.is_alive() and self._round() < interruption.round:
            assert time.monotonic() < deadline, "the round did not start"
            time.sleep(0.01)
        time.sleep(interruption.seconds)
        if interruption.kind == "disk" and self.disk:
            used = int(subprocess.run(
                ["df", "--output=used", "-k", self.runs], check=True, capture_output=True, text=True
            ).stdout.split()[1])  # fmt: skip
            full = f"remount,size={max(used, 4)}k"
            subprocess.run(["mount", "-o", full, self.runs], check=False, capture_output=True)
        elif process.pid and process.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(
                    process.pid,
                    signal.SIGKILL if interruption.kind == "kill" else signal.SIGTERM,
                )

    def _round(self) -> int:
        """Return the current round; 0 before the first."""
        with contextlib.suppress(OSError):
            text = (self.directory / "rounds.csv").read_text()
            return count_rounds(self.directory) + (",test," in text)
        return 0

    def status(self) -> str:
        """Return the record's status; empty if there is no record."""
        with contextlib.suppress(OSError):
            return str(read_entries(self.directory)["status"])
        return ""

    def _reason(self) -> str:
        return str(read_entries(self.directory).get("reason", "")) + self._said()

    def _said(self) -> str:
        return (self.place / "said.txt").read_text()

    def _wrongs(self, code: int) -> list[str]:
        if "Traceback" in self._said():
            return [f"a traceback was printed: {self._said()[-2000:]}"]
        if code not in (0, FAILED, INTERRUPTED, -signal.SIGKILL):
            return [f"it ended with {code}: {self._said()[-300:]}"]
        if not (self.directory / "run.json").exists():
            return [] if self.schedule.interruptions else ["no record"]
        record = read_entries(self.directory)
        found = list(self._rows_wrong(record["status"] == "completed"))
        if record["status"] == "completed":
            models = [load_file(self.directory / "model.safetensors")]
            if checkpoints(self.directory):
                found.append("a completed run has checkpoints")
        else:
            models = [read_checkpoint(one).model.arrays for one in checkpoints(self.directory)]
            if not record["reason"] or "Traceback" in record["reason"]:
                found.append(f"{record['status']} with no clear reason: {record['reason']!r}")
        if not all(np.isfinite(value).all() for model in models for value in model.values()):
            found.append("a model is not finite")
        return found

    def _rows_wrong(self, completed: bool) -> list[str]:
        found = []
        clients = {  # by the round of the request, which may be earlier than that of the update
            (int(r["round"]) - int(r.get("staleness") or 0), int(r["client"])): r
            for r in self._table("clients.csv")
        }
        if len(clients) < len(self._table("clients.csv")):
            found.append("a client has two rows in a round")
        rounds = Counter((r["round"], r["split"], r["metric"]) for r in self._table("rounds.csv"))
        if max(rounds.values(), default=1) > 1:
            found.append(f"a metric has two rows in a round: {rounds.most_common(1)}")
        if completed and {int(key[0]) for key in rounds} - {0} != set(range(1, ROUNDS + 1)):
            found.append("a round has no rows")
        for server_round, client in self._bad():
            row = clients.get((server_round, client))
            if row is not None and row["status"] == "ok":
                found.append(f"a bad reply counted: round {server_round}, client {client}")
        return found

    def _bad(self) -> set[tuple[int, int]]:
        path = self.place / "bad.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return {(one[0], one[1]) for one in map(json.loads, lines)}

    def _table(self, name: str) -> list[dict[str, str]]:
        with (self.directory / name).open(newline="") as file:
            return list(csv.DictReader(file))

    def sha256(self) -> str:
        """Return the final model's SHA-256; empty if there is none."""
        return str(read_entries(self.directory).get("model_sha256", ""))

    def description(self) -> str:
        """Return the schedule in one line."""
        events = [f"{one.kind}@{one.round}" for one in self.schedule.interruptions]
        events += [f"{one.kind}@{one.round}/{one.client}" for one in self.schedule.faults]
        words = shlex.join(self.schedule.words[len(SIMULATED) :])
        return f"{self.schedule.seed}: {words}: {' '.join(events)}"
