"""Flower's own programs as processes, ended with all that they began."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

import psutil

from task.errors import RunError

# Containers often set it. Each message to a site is a process that would compile PyTorch's and
# Flower's sources anew, which doubles its start.
NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
START_SECONDS = 60.0
STOP_SECONDS = 15.0


class FlowerError(RunError):
    """One of Flower's programs could not be started; the text says why."""


def program(name: str) -> str:
    """The path of one of Flower's programs, as installed beside this Python.

    Raises:
        FlowerError: it is not there.
    """
    scripts = Path(sys.executable).parent
    found = shutil.which(name, path=f"{scripts}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        raise FlowerError(f"{name} is not installed beside {sys.executable}")
    return found


def environment(home: Path) -> dict[str, str]:
    """What Flower's programs need around them, their own files in `home`."""
    kept = {name: value for name, value in os.environ.items() if name != NO_BYTECODE}
    return {
        **kept,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "FLWR_HOME": str(home),
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_TELEMETRY_ENABLED": "0",
        "RAY_DEDUP_LOGS": "0",
        # Ray would start a worker per core that no client can use: Flower asks for others.
        "RAY_prestart_worker_first_driver": "0",
        "RAY_enable_worker_prestart": "0",
    }


def start(
    command: Sequence[str], home: Path, directory: Path, output: IO[str] | int
) -> subprocess.Popen[bytes]:
    """Start one of Flower's programs in a directory, in a session of its own.

    Raises:
        FlowerError: it is not installed.
    """
    return subprocess.Popen(  # noqa: S603  (our own words, no shell)
        [program(command[0]), *command[1:]],
        cwd=directory,
        env=environment(home),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def wait_until(well: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait for a SuperLink.

    Args:
        well: whether it answers; may raise an `OSError` if not.
        process: the SuperLink's.
        log: what it says.

    Raises:
        FlowerError: it ended, or took too long.
    """
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise FlowerError(f"flower-superlink ended at once: {last_line(log)}")
        with contextlib.suppress(OSError):
            if well():
                return
        time.sleep(0.1)
    raise FlowerError(f"flower-superlink was not ready within {START_SECONDS:g} s")


def stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End processes and all that they started, asking first.

    Flower runs each simulation in a session of its own, which outlives a SuperLink that is told to
    end; so the whole family is looked up before anybody is.
    """
    family: list[psutil.Process] = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            parent = psutil.Process(process.pid)
            family += [*parent.children(recursive=True), parent]
    for end in (psutil.Process.terminate, psutil.Process.kill):
        for member in filter(lives, family):
            with contextlib.suppress(psutil.NoSuchProcess):
                end(member)
        deadline = time.monotonic() + STOP_SECONDS
        while any(map(lives, family)) and time.monotonic() < deadline:
            time.sleep(0.1)
    for process in processes:
        process.wait(STOP_SECONDS)


def lives(process: psutil.Process) -> bool:
    """Whether a process still runs; one that ended and was not yet buried does not."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def free_ports(count: int) -> list[int]:
    """So many TCP ports that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def last_line(path: Path) -> str:
    """The last line of a text file that is not blank."""
    lines = [line.strip() for line in path.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
