"""``univarfl dashboard``: a local page that follows runs."""

from pathlib import Path
from typing import Annotated

import typer

from univarfl.cli.arguments import runs_argument

PORT = 8600
DASHBOARD_HELP = """Follow runs on a local page; Ctrl-C ends it.

\b
  univarfl dashboard
  univarfl dashboard runs/digits --port 8601
\b
The page lists the runs with the settings in which they differ, and shows curves, clients, sites,
failures and events. It only reads records. The printed address has a token; without it nobody can
open the page. With --host another machine can; the connection is not encrypted.
"""


def dashboard(
    directory: Annotated[
        Path,
        runs_argument("The directory of runs, or of one run; else $UNIVARFL_RUNS, else ./runs."),
    ] = Path("runs"),
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to listen on; 0 for any free one.")
    ] = PORT,
) -> None:
    """Show runs on a page."""
    from univarfl.report.dashboard.serve import serve  # noqa: PLC0415

    serve(directory, host, port)
