"""The memory that this process may use: the machine's, or less if a control group limits it.

Containers, systemd (``MemoryMax=``) and batch systems such as Slurm limit a control group. Its
files are below ``/sys/fs/cgroup``, in a directory that ``/proc/self/cgroup`` names, and each
directory above it can have a limit as well. In version 1 the files of memory have a directory tree
of their own, and other names. Source: the Linux kernel's documentation, ``admin-guide/cgroup-v2``
and ``admin-guide/cgroup-v1/memory``.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil

OWN_GROUPS = Path("/proc/self/cgroup")
CONTROL_GROUPS = Path("/sys/fs/cgroup")
WORKER_BYTES = 2_000_000_000  # what a process that trains may need


class Names(NamedTuple):
    """The files of a control group: its limit, what it uses, and its entry of unused file pages."""

    limit: str
    used: str
    inactive: str


VERSION_1 = Names("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
VERSION_2 = Names("memory.max", "memory.current", "inactive_file")


def total_bytes(own: Path = OWN_GROUPS, root: Path = CONTROL_GROUPS) -> int:
    """Return how much memory this process may use, with what it uses already.

    Args:
        own: the file that names the process's control groups.
        root: where the control groups are.
    """
    total = int(psutil.virtual_memory().total)
    return min([total, *(limit for limit, _ in limits(own, root))])


def available_bytes(own: Path = OWN_GROUPS, root: Path = CONTROL_GROUPS) -> int:
    """Return how much memory is left to this process; files' pages that nobody uses count as left.

    Args:
        own: the file that names the process's control groups.
        root: where the control groups are.
    """
    left = int(psutil.virtual_memory().available)
    return min([left, *(limit - used for limit, used in limits(own, root))])


def processes_that_fit(cpus: int, memory: int) -> int:
    """Return how many processes that train fit: one for each core that memory has room for.

    Args:
        cpus: the number of cores.
        memory: the free memory in bytes; each process may need `WORKER_BYTES`.
    """
    return max(1, min(cpus, memory // WORKER_BYTES))


def limits(own: Path, root: Path) -> Iterator[tuple[int, int]]:
    """Yield the limit and the use of each control group that limits this process's memory."""
    for directory, names in groups(own, root):
        try:
            limit = int((directory / names.limit).read_text())
            used = int((directory / names.used).read_text())
            lines = (directory / "memory.stat").read_text().splitlines()
            pages = dict(line.split() for line in lines)
            yield limit, used - int(pages[names.inactive])
        except (OSError, ValueError, KeyError):
            continue  # this group has no limit


def groups(own: Path, root: Path) -> Iterator[tuple[Path, Names]]:
    """Yield the directories of this process's control groups, and the names of their files."""
    try:
        lines = own.read_text().splitlines()
    except OSError:  # not Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            tree, names = root, VERSION_2
        elif "memory" in controllers.split(","):
            tree, names = root / "memory", VERSION_1
        else:
            continue
        place = tree / path.lstrip("/")
        while place.is_relative_to(tree):
            yield place, names
            place = place.parent
