"""The report of runs, without the table that the command prints."""

import contextlib
import io
import logging
from pathlib import Path

import univarfl.application  # noqa: F401

# isort: split

from server_app.tracking.console import shown_by
from task.machine.files import from_home
from univarfl.report.write import report


def write_report(directory: Path, to: str | Path | None) -> Path:
    """Write the report of the runs in a directory, and return its page.

    Args:
        directory: the runs, or one run.
        to: the directory of the report; None for ``report`` in `directory`.

    Raises:
        ConfigError: there are no runs, or the report cannot be written.
        RunError: no run is completed.
    """
    place = from_home(to).absolute() if to else directory / "report"
    with shown_by(logging.NullHandler()), contextlib.redirect_stdout(io.StringIO()):
        report(directory, place)
    return place / "index.html"
