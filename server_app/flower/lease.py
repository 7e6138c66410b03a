"""A lease: a locked file by which a ServerApp knows that the command that submitted it still runs.

A command that is killed cannot stop its run. The system releases the lock when the command ends,
however it ends. The ServerApp sees it, and ends the run.
"""

import contextlib
import secrets
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from filelock import FileLock

from server_app.rounds.errors import CommandEndedError
from server_app.runs.lock import is_locked

LOOK_SECONDS = 1.0
ENDED = "the command that submitted it has ended; the run can be resumed"


@contextlib.contextmanager
def hold_lease(place: Path) -> Iterator[Path]:
    """Hold a new lease in a directory; delete it at the end."""
    path = place / f"run-{secrets.token_hex(8)}.lease"
    lock = FileLock(path)
    lock.acquire()
    try:
        yield path
    finally:
        lock.release()
        path.unlink(missing_ok=True)


class LeaseWatch:
    """A context in whose main thread `CommandEndedError` is raised once the lease is free.

    Args:
        lease: the path of the lease.
    """

    def __init__(self, lease: str) -> None:
        self._lease = Path(lease)
        self._over = threading.Event()

    def __enter__(self) -> None:
        self._main = threading.get_ident()
        signal.signal(signal.SIGUSR1, self._raise)
        threading.Thread(target=self._watch, daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def _watch(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            if not is_locked(self._lease):
                # A signal also interrupts a wait in the main thread.
                signal.pthread_kill(self._main, signal.SIGUSR1)

    def _raise(self, _number: int, _frame: FrameType | None) -> None:
        if not self._over.is_set():
            self._over.set()
            raise CommandEndedError(ENDED)
