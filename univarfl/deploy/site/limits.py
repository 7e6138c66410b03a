"""The time and the memory that the work on one message may take."""

import time

import psutil

from task.machine.memory import total_bytes

MEMORY_SHARE = 0.8
READ_SECONDS = 120.0  # for reading a message that has arrived
UNREAD = "it took too long to read the message"
GRACE_SECONDS = 5.0  # after the coordinator's deadline, at which the work ends by itself


class LimitError(RuntimeError):
    """The work on a message took too long or too much memory."""


def memory_limit() -> int:
    """Return `MEMORY_SHARE` of the memory that this process may use."""
    return int(MEMORY_SHARE * total_bytes())


class Limits:
    """The limits of one child process.

    Args:
        process: the child.
        memory: the most memory of its own that it may have, in bytes. Pages of files, such as
            those of the images, do not count: the system takes them back when it needs memory.
    """

    def __init__(self, process: psutil.Process, memory: int) -> None:
        self._process, self._memory = process, memory
        self.allow(READ_SECONDS, UNREAD)

    def allow(self, seconds: float, reason: str) -> None:
        """Set the time from now on after which the work is ended, and what is said then."""
        self._deadline, self._reason = time.monotonic() + seconds, reason

    def check(self) -> None:
        """Compare what the child has used with its limits.

        Raises:
            LimitError: it has exceeded one.
        """
        if time.monotonic() > self._deadline:
            raise LimitError(self._reason)
        try:
            found = self._process.memory_info()
        except psutil.Error:
            return  # it has ended
        if found.rss - getattr(found, "shared", 0) > self._memory:
            raise LimitError(f"it needed more than {self._memory / 1e6:,.0f} MB of memory")
