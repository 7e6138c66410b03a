"""Sample the memory of a run's processes from outside."""

import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.processes import UNIVARFL

MEGABYTE = 1e6
KINDS = {"server": "flwr-simulation", "worker": "ray::ClientAppActor"}


class Peak(NamedTuple):
    """A process's memory at its peak, in megabytes.

    Attributes:
        own: anonymous pages, from Linux's smaps_rollup.
        resident: anonymous pages and those of files that it has read, which processes share.
    """

    own: float = 0.0
    resident: float = 0.0


def watch(words: Sequence[str]) -> dict[str, list[Peak]]:
    """Run ``univarfl train``, and return the peaks of its server and of each worker.

    Raises:
        SystemExit: the run failed.
    """
    peaks: dict[str, dict[int, Peak]] = defaultdict(lambda: defaultdict(Peak))
    with tempfile.TemporaryDirectory() as place:
        command = [UNIVARFL, "train", *words, f"output_dir={place}"]
        train = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while train.poll() is None:
            try:
                for process in psutil.Process(train.pid).children(recursive=True):
                    if kind := kind_of(process):
                        peak = peaks[kind][process.pid]
                        resident = process.memory_info().rss / MEGABYTE
                        now = Peak(anonymous(process.pid), resident)
                        peaks[kind][process.pid] = Peak(*map(max, zip(peak, now, strict=True)))
            except (psutil.Error, OSError):
                pass  # the process ended meanwhile
            time.sleep(0.1)
    if train.returncode:
        raise SystemExit(f"{' '.join(command)} failed")
    return {kind: list(found.values()) for kind, found in peaks.items()}


def kind_of(process: psutil.Process) -> str:
    """Return whether a process is a run's server or a worker; empty for any other."""
    command = " ".join(process.cmdline()[:2])
    return next((kind for kind, name in KINDS.items() if name in command), "")


def anonymous(pid: int) -> float:
    """Return a process's anonymous memory in megabytes."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("Anonymous:"))
    return 1024 * int(line.split()[1]) / MEGABYTE
