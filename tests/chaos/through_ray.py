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

KINDS = ("worker", "sigterm", "kill")
SECONDS = 300.0


def suffered(words: list[str], directory: Path, kind: str, server_round: int) -> list[str]:
    """Train, do it in that round, and go on until the run is completed; what was printed.

    Args:
        words: the run's overrides, its place and id among them.
        directory: where its record will lie.
        kind: a Ray worker is killed, the command is told to end, or it is killed with all that it
            started.
        server_round: after this one.
    """
    said = []
    with begun(words, directory) as run:
        process = psutil.Process(run.pid)
        deadline = time.monotonic() + SECONDS
        while rounds_done(directory) < server_round and run.poll() is None:
            assert time.monotonic() < deadline, "the round has not come"
            time.sleep(0.02)
        strike(process, kind)
        said.append(run.communicate(timeout=SECONDS)[0])
    if read_record(directory)["status"] != "completed":
        with begun([f"resume={directory}"], directory) as run:
            said.append(run.communicate(timeout=SECONDS)[0])
    return said


def begun(words: list[str], directory: Path) -> "subprocess.Popen[str]":
    """``univarfl train``, its client memory beside the runs."""
    environment = {**os.environ, "UNIVARFL_MEMORY": str(directory.parent / "memory")}
    return subprocess.Popen(
        [UNIVARFL, "train", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=environment,
    )  # fmt: skip


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
