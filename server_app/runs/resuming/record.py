"""The record of a run that is to go on."""

from pathlib import Path

from server_app.runs.records.record import damaged
from server_app.runs.records.run_record import RunRecord, UnknownFormatError, read_record
from server_app.runs.records.tables import RecordError
from task.errors import ConfigError


def record_to_resume(directory: Path) -> RunRecord:
    """Return the record of a run if it is as it was written.

    Raises:
        ConfigError: it cannot be read, is damaged, or has the form of another version.
    """
    try:
        return read_record(directory, unchanged=True)
    except UnknownFormatError:
        raise other_version(directory) from None
    except RecordError as error:
        raise damaged(directory, str(error)) from None


def other_version(directory: Path) -> ConfigError:
    """Return the error for a run that other code has made."""
    allowed = "that run was made by another version of the code; resume it with that version"
    return ConfigError("resume", directory, allowed)
