"""Whether a round's memory is available, before the system ends the process."""

from pathlib import Path

import psutil

from server_app.rounds.errors import RunFailedError

CONTROL_GROUP = Path("/sys/fs/cgroup")
RESERVE = 200_000_000
MEGABYTE = 1e6


def available_bytes(group: Path = CONTROL_GROUP) -> int:
    """Return the memory left on the machine, or in the container if that is less."""
    left = int(psutil.virtual_memory().available)
    try:
        limit = (group / "memory.max").read_text().strip()
        used = int((group / "memory.current").read_text())
        cache = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        in_container = int(limit) - used + int(cache["inactive_file"])
    except (OSError, ValueError, KeyError):
        return left  # there is no such limit
    return min(left, in_container)


def check_memory(server_round: int, needed: int) -> None:
    """Refuse to start a round whose memory is not available.

    Args:
        server_round: the round.
        needed: an estimate, in bytes.

    Raises:
        RunFailedError: there is less.
    """
    available = available_bytes()
    if needed + RESERVE > available:
        raise RunFailedError(
            f"round {server_round}: memory is short: a round needs about "
            f"{(needed + RESERVE) / MEGABYTE:,.0f} MB in the server's process, and "
            f"{available / MEGABYTE:,.0f} MB are left; choose a smaller rho or model, or "
            "strategy=fedavg with guard=none"
        )
