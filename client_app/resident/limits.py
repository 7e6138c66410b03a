"""The time and the memory that the work on one message may take."""

import contextlib
import math
import time
from pathlib import Path

import psutil

CONTROL_GROUP = Path("/sys/fs/cgroup")
MEMORY_SHARE = 0.8
READ_SECONDS = 120.0  # for reading a message that has arrived
GRACE_SECONDS = 5.0  # after the coordinator's deadline, at which the work ends by itself


class LimitError(RuntimeError):
    """The work on a message took too long or too much memory."""


def memory_limit() -> int:
    """Return `MEMORY_SHARE` of the machine's memory, or of the container's if that is less."""
    total = int(psutil.virtual_memory().total)
    with contextlib.suppress(OSError, ValueError):  # there is no such limit
        total = min(total, int((CONTROL_GROUP / "memory.max").read_text()))
    return int(MEMORY_SHARE * total)


class Limits:
    """The limits of one child process.

    Args:
        process: the child.
        memory: the most memory of its own that it may have, in bytes. Pages of files, such as
            those of the images, do not count: the system takes them back when it needs memory.
    """

    def __init__(self, process: psutil.Process, memory: int) -> None:
        self._process, self._memory = process, memory
        self._deadline = math.inf
        self.allow(READ_SECONDS)

    def allow(self, seconds: float) -> None:
        """Set the time from now on after which the work is ended; 0 for none."""
        self._deadline = time.monotonic() + (seconds or math.inf)

    def check(self) -> None:
        """Compare what the child has used with its limits.

        Raises:
            LimitError: it has exceeded one.
        """
        if time.monotonic() > self._deadline:
            raise LimitError("it took longer than the coordinator waits")
        try:
            found = self._process.memory_info()
        except psutil.Error:
            return  # it has ended
        if found.rss - getattr(found, "shared", 0) > self._memory:
            raise LimitError(f"it needed more than {self._memory / 1e6:,.0f} MB of memory")
