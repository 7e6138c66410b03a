"""Interrupt a run through Flower and Ray once, and resume it if it did not complete."""

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil

from server_app.runs.records.run_record import read_entries
from server_app.runs.records.tables import count_rounds
from tests.processes import UNIVARFL

KINDS = ("worker", "sigterm", "kill", "hang")
SECONDS = 300.0
HELD_SECONDS = 5.0


def suffered(words: list[str], directory: Path, kind: str, server_round: int) -> list[str]:
    """Train, interrupt the run, and resume it until it completes; return what was printed.

    Args:
        words: the run's overrides, with ``output_dir`` and ``run_id``.
        directory: the run's directory.
        kind: ``worker`` kills a Ray worker, ``sigterm`` terminates the command, ``kill`` kills it
            with all its processes, ``hang`` blocks reads of client state for a while.
        server_round: the round after which it happens.
    """
    said = []
    with begun(words, directory) as run:
        process = psutil.Process(run.pid)
        deadline = time.monotonic() + SECONDS
        while count_rounds(directory) < server_round and run.poll() is None:
            assert time.monotonic() < deadline, "the round did not end"
            time.sleep(0.02)
        if kind == "hang":
            hold_storage(memory_of(directory))
        else:
            strike(process, kind)
        said.append(run.communicate(timeout=SECONDS)[0])
    if read_entries(directory)["status"] != "completed":
        with begun([f"resume={directory}"], directory) as run:
            said.append(run.communicate(timeout=SECONDS)[0])
    return said


def begun(words: list[str], directory: Path) -> "subprocess.Popen[str]":
    """Start ``univarfl train`` with its client state beside the runs."""
    environment = {**os.environ, "UNIVARFL_MEMORY": str(memory_of(directory))}
    return subprocess.Popen(
        [UNIVARFL, "train", "engine=flower", *words],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
    )  # fmt: skip


def memory_of(directory: Path) -> Path:
    """Return the directory of the run's client state."""
    return directory.parent / "memory"


def hold_storage(memory: Path) -> None:
    """Replace files of client state by pipes for a while; opening one of these blocks."""
    held = []
    for path in memory.glob("*/client-*/*.safetensors"):
        with contextlib.suppress(FileNotFoundError):  # its client has just replaced it
            path.rename(path.with_suffix(".aside"))
            os.mkfifo(path)
            held.append(path)
    time.sleep(HELD_SECONDS)
    for path in held:
        path.with_suffix(".aside").replace(path)


def strike(process: psutil.Process, kind: str) -> None:
    """Kill or terminate the run, as `kind` says."""
    family = process.children(recursive=True)
    with contextlib.suppress(psutil.NoSuchProcess):
        if kind == "worker":
            actors = [one for one in family if "ClientAppActor" in " ".join(one.cmdline()[:1])]
            actors[0].kill()
        elif kind == "sigterm":
            process.send_signal(signal.SIGTERM)
        else:
            for member in [process, *family]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    member.kill()
