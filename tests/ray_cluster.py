"""A Ray cluster of several raylets on this machine, as several machines would form."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Self

import psutil

from tests.machines import until
from tests.processes import UNIVARFL, end
from univarfl.flower.programs import free_ports

RAY = str(Path(sys.executable).with_name("ray"))


class Cluster:
    """Raylets, stopped when the context ends.

    Args:
        cpus: of each raylet.
    """

    def __init__(self, cpus: int = 1) -> None:
        self._cpus = cpus
        self.address = f"127.0.0.1:{free_ports(1)[0]}"
        self._processes: list[subprocess.Popen[bytes]] = []
        # Short, because the path of Ray's sockets in it may have at most 107 characters.
        self._scratch = tempfile.mkdtemp(prefix="ray", dir="/tmp")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        end(self._processes)
        shutil.rmtree(self._scratch, ignore_errors=True)

    def raylet(self, memory: Path) -> psutil.Process:
        """Start one more raylet, whose workers keep client state in `memory`."""
        port = self.address.partition(":")[2]
        where = (
            [f"--address={self.address}"]
            if self._processes
            else ["--head", f"--port={port}", "--include-dashboard=false",
                  f"--temp-dir={self._scratch}"]
        )  # fmt: skip
        process = subprocess.Popen(
            [RAY, "start", *where, f"--num-cpus={self._cpus}", "--disable-usage-stats", "--block"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            env={**os.environ, "UNIVARFL_MEMORY": str(memory)},
        )  # fmt: skip
        self._processes.append(process)
        until(lambda: raylet_of(process) and self._count() == len(self._processes), "a raylet")
        found = raylet_of(process)
        assert found
        return found

    def train(self, *words: str) -> "subprocess.Popen[str]":
        """Start ``univarfl train`` on the cluster."""
        return subprocess.Popen(
            [UNIVARFL, "train", "engine=flower", *words],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "RAY_ADDRESS": self.address},
        )  # fmt: skip

    def _count(self) -> int:
        done = subprocess.run(
            [RAY, "status", "--address", self.address], capture_output=True, text=True, check=False
        )
        return done.stdout.count(" node_")


def raylet_of(process: "subprocess.Popen[bytes]") -> psutil.Process | None:
    """Return the raylet that a ``ray start`` has started, if it has."""
    for child in psutil.Process(process.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if child.name() == "raylet":
                return child
    return None
