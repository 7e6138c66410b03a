"""The end of a process whose client hangs where nothing can be checked between batches."""

import faulthandler
import sys
from collections.abc import Iterator
from contextlib import contextmanager

GRACE_SECONDS = 30.0


@contextmanager
def ended_after(seconds: float) -> Iterator[None]:
    """End this process if what it does takes that much longer than the server waits for it.

    Where each thread hangs is written to standard error. A server learns that its worker is gone,
    stops the run after its last full round, and ``univarfl train`` goes on from there.

    Args:
        seconds: how long the server waits; 0 for ever.
    """
    if seconds:
        faulthandler.dump_traceback_later(
            seconds + GRACE_SECONDS, exit=True, file=sys.__stderr__ or sys.stderr
        )
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
