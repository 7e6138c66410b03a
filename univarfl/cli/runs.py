"""``univarfl runs``: a table of the runs in a directory."""

from pathlib import Path
from typing import Annotated

import typer

from task.errors import ConfigError
from univarfl.cli.arguments import runs_argument
from univarfl.terminal.streams import print_plain

RUNS_HELP = """List runs: status, settings that differ, accuracy.

\b
  univarfl runs
  univarfl runs runs/digits --last 10
\b
Status: completed; running or failed, with the rounds that are done; interrupted (Ctrl-C);
killed (its process is gone); damaged record. A run that is not completed is continued by
'univarfl train resume=RUN'. The last line of the table is the run that 'latest' names.
"""


def runs(
    directory: Annotated[
        Path,
        runs_argument("The directory of runs; else $UNIVARFL_RUNS, else ./runs."),
    ] = Path("runs"),
    last: Annotated[
        int | None, typer.Option(help="Only so many runs, the last ones.", show_default=False)
    ] = None,
) -> None:
    """List runs."""
    from tabulate import tabulate  # noqa: PLC0415

    from univarfl.records.listing import listed_runs, table_of  # noqa: PLC0415

    if last is not None and last < 1:
        raise ConfigError("--last", last, "must be at least 1")
    found = listed_runs(directory)
    headings, rows = table_of(found[-last:] if last else found)
    print_plain(tabulate(rows, headings, "simple", disable_numparse=True))
