"""How much memory this process may still take, before the system ends it."""

from pathlib import Path

import psutil

CONTROL_GROUP = Path("/sys/fs/cgroup")
RESERVE = 200_000_000
MEGABYTE = 1e6


def available_bytes(group: Path = CONTROL_GROUP) -> int:
    """What the machine has left or, in a container with less, what that has."""
    left = int(psutil.virtual_memory().available)
    try:
        limit = (group / "memory.max").read_text().strip()
        used = int((group / "memory.current").read_text())
        cache = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        mine = int(limit) - used + int(cache["inactive_file"])
    except (OSError, ValueError, KeyError):
        return left  # no such limit
    return min(left, mine)


def shortage(needed: int, available: int) -> str:
    """What to say if so many bytes are not left; empty if they are."""
    if needed + RESERVE <= available:
        return ""
    return (
        f"memory is short: a round needs about {(needed + RESERVE) / MEGABYTE:,.0f} MB here and "
        f"{available / MEGABYTE:,.0f} MB are left; a smaller rho or model, or strategy=fedavg with "
        "guard=none, needs less"
    )
