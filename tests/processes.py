"""Processes that tests start: the processes started by them in turn, and their end."""

import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from univarfl.flower.supervisor import is_alive

UNIVARFL = str(Path(sys.executable).with_name("univarfl"))
END_SECONDS = 30.0


def family_of(pid: int) -> list[psutil.Process]:
    """Return a process and all its descendants."""
    return [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]


def alive(family: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Return those processes that still run."""
    return list(filter(is_alive, family))


def names(family: Iterable[psutil.Process]) -> str:
    """Return the command lines of the processes that still run."""
    lines = []
    for process in alive(family):
        try:
            lines.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return "\n".join(lines)


def end(processes: Sequence["subprocess.Popen[bytes]"]) -> None:
    """End processes and all their descendants."""
    families = [family_of(process.pid) for process in processes if process.poll() is None]
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    for process in (member for family in families for member in alive(family)):
        kill(process)


def kill(process: psutil.Process) -> None:
    """Kill a process, which may have ended meanwhile."""
    with suppress(psutil.NoSuchProcess):
        process.kill()
