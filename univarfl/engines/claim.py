"""The claim of a command on the run directory that it runs."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from server_app.runs.directory import clear
from server_app.runs.lock import COMMAND_LOCK, LOCK, hold
from server_app.runs.records.record import RUN_JSON
from task.errors import ConfigError


@contextmanager
def claimed(directory: Path, *, resume: bool) -> Iterator[None]:
    """Hold a run for the command that runs it, so that only one command writes its record.

    The directory of a new run is made, and deleted if nothing was written to it.

    Args:
        directory: the run directory.
        resume: whether the run exists.

    Raises:
        ConfigError: another command runs it, or has just made a run of this name.
    """
    directory.mkdir(exist_ok=True)
    try:
        lock = hold(directory, COMMAND_LOCK)
    except ConfigError as error:
        if resume:
            raise
        raise ConfigError("run_id", directory.name, error.allowed) from None
    try:
        if not resume:
            clear(directory)
        yield
    finally:
        if not (directory / RUN_JSON).exists():
            delete_unused(directory)
        lock.release()


def delete_unused(directory: Path) -> None:
    """Delete a run directory that has nothing but locks."""
    names = {path.name for path in directory.iterdir()}
    if names <= {LOCK, COMMAND_LOCK}:
        with suppress(OSError):
            for name in names:
                (directory / name).unlink()
            directory.rmdir()
