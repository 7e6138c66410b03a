"""Run one schedule, and compare the result with an uninterrupted run."""

import os
import shutil
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

from tests.chaos.schedule import draw
from tests.chaos.suffering import Sufferer
from tests.task.data import making

NEEDED = ("tests.chaos.suffering", "matplotlib.pyplot")  # imported once for all runs


def small_disks_allowed() -> bool:
    """Return whether this process may mount a file system."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return False
    with tempfile.TemporaryDirectory() as place:
        mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "x", place]
        made = subprocess.run(mount, check=False, capture_output=True).returncode == 0
        if made:
            subprocess.run(["umount", place], check=True)
    return made


def images_in(place: Path) -> Path:
    """Create a small data set of three classes."""
    return making.tree(place / "images", ["cat", "dog", "fox"], 24)


def tried(
    seed: int, images: Path, place: Path, disk: bool, timed: bool = False
) -> tuple[str, list[str]]:
    """Run a schedule; return a description of it and of everything that is wrong.

    Args:
        seed: of the schedule.
        images: the data set's directory.
        place: holds the runs.
        disk: whether disks may become full.
        timed: whether the clients have simulated devices.
    """
    schedule = draw(seed, timed)
    name = f"timed-{seed}" if timed else f"{seed}"
    run = Sufferer(schedule, images, place / name, disk)
    wrong = run.suffer()
    there = (run.directory / "run.json").exists()
    ended = f"{run.status() or 'not begun'} {run.sha256()[:8] if there else ''}"
    if not schedule.faults and there:
        whole = Sufferer(
            replace(schedule, interruptions=()), images, place / f"{name}-whole", False
        )
        wrong += whole.suffer()
        if run.sha256() != whole.sha256():
            wrong.append(f"{seed}: other bits than without the interruptions")
    return f"{run.description()}: {ended}", wrong
