"""Ends a process whose client hangs where no deadline is checked."""

import faulthandler
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from task.site import IN_PROCESS, NodeConfig

GRACE_SECONDS = 30.0


@contextmanager
def process_ended_after(seconds: float, node_config: NodeConfig) -> Iterator[None]:
    """End this process if its work takes `GRACE_SECONDS` longer than the server waits for it.

    The stack of each thread is written to standard error. The server notices the lost worker and
    stops the run after its last complete round; ``univarfl train`` then resumes it.

    A node that shares the process of the server is left alone, because the whole command
    would end with it.

    Args:
        seconds: how long the server waits; 0 for any time.
        node_config: the node's settings.
    """
    armed = bool(seconds) and not node_config.get(IN_PROCESS)
    if armed:
        faulthandler.dump_traceback_later(
            seconds + GRACE_SECONDS, exit=True, file=sys.__stderr__ or sys.stderr
        )
    try:
        yield
    finally:
        if armed:
            faulthandler.cancel_dump_traceback_later()
