"""A lock that one command holds while it uses a directory."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from task.errors import RunError
from task.machine.files import make_private
from univarfl.deploy.places import refuse_unusable


@contextmanager
def hold_alone(path: Path, refusal: str, patience: float = 0.0) -> Iterator[None]:
    """Lock a file for this process; the system releases it if the process is killed.

    Args:
        path: the file, which is made.
        refusal: what to say if another process holds it.
        patience: for how many seconds to try.

    Raises:
        ConfigError: the file cannot be used.
        RunError: another process holds it.
    """
    with refuse_unusable(path.parent):
        make_private(path.parent)
        lock = FileLock(path)
        try:
            lock.acquire(patience, poll_interval=0.1)
        except Timeout:
            raise RunError(refusal) from None
    try:
        yield
    finally:
        lock.release()
