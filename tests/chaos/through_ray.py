"""A run through Flower and Ray that suffers one interruption, and is gone on with if need be."""

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil

from server_app.run_record import read_record, rounds_done
from tests.machines import UNIVARFL

KINDS = ("worker", "sigterm", "kill", "hang")
SECONDS = 300.0
HELD_SECONDS = 5.0


def suffered(words: list[str], directory: Path, kind: str, server_round: int) -> list[str]:
    """Train, do it in that round, and go on until the run is completed; what was printed.

    Args:
        words: the run's overrides, its place and id among them.
        directory: where its record will lie.
        kind: a Ray worker is killed, the command is told to end, it is killed with all that it
            started, or the storage of client memories hangs for whoever reads it then.
        server_round: after this one.
    """
    said = []
    with begun(words, directory) as run:
        process = psutil.Process(run.pid)
        deadline = time.monotonic() + SECONDS
        while rounds_done(directory) < server_round and run.poll() is None:
            assert time.monotonic() < deadline, "the round has not come"
            time.sleep(0.02)
        if kind == "hang":
            hold_storage(memory_of(directory))
        else:
            strike(process, kind)
        said.append(run.communicate(timeout=SECONDS)[0])
    if read_record(directory)["status"] != "completed":
        with begun([f"resume={directory}"], directory) as run:
            said.append(run.communicate(timeout=SECONDS)[0])
    return said


def begun(words: list[str], directory: Path) -> "subprocess.Popen[str]":
    """``univarfl train``, its client memory beside the runs."""
    environment = {**os.environ, "UNIVARFL_MEMORY": str(memory_of(directory))}
    return subprocess.Popen(
        [UNIVARFL, "train", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=environment,
    )  # fmt: skip


def memory_of(directory: Path) -> Path:
    """Where the run's client memories are kept."""
    return directory.parent / "memory"


def hold_storage(memory: Path) -> None:
    """Pipes in the place of client memories for a while: who opens one waits for ever."""
    held = []
    for path in memory.glob("*/client-*/*.safetensors"):
        with contextlib.suppress(FileNotFoundError):  # its client has just taken the next step
            path.rename(path.with_suffix(".aside"))
            os.mkfifo(path)
            held.append(path)
    time.sleep(HELD_SECONDS)
    for path in held:
        path.with_suffix(".aside").replace(path)


def strike(process: psutil.Process, kind: str) -> None:
    """Do it."""
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
