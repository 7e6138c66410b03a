"""``univarfl report``: a page and tables of runs."""

from pathlib import Path
from typing import Annotated

import typer

from task.errors import ConfigError
from univarfl.cli.arguments import latest_or_directory, runs_argument

REPORT_HELP = """Write a page and tables about the runs in a directory.

\b
  univarfl report runs
  univarfl report runs/digits --target 0.9 --target 0.95 --baseline fedprox
  univarfl report runs/tuned --tuned optim.lr
\b
From the records alone, it computes accuracy as mean ± standard deviation over seeds (last round,
mean of the last five, best by validation), the papers' numbers for the same settings, other
metrics, rounds to a target, and paired differences on the same seeds. It writes a page with
everything, index.html, which needs no network, and the tables as CSV, Markdown and LaTeX. With
--pictures it also writes the charts as PNG and SVG, half a second for each. Records that cannot be
read and runs without a result are named and left out.
"""


def report(
    directory: Annotated[
        Path,
        runs_argument(
            "The directory of runs, or of one run; else $UNIVARFL_RUNS, else ./runs. "
            "'latest' is the last run there.",
            latest_or_directory,
        ),
    ] = Path("runs"),
    to: Annotated[
        Path | None,
        typer.Option(
            metavar="DIRECTORY",
            help="Where to write; without it, DIRECTORY/report.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        list[float] | None,
        typer.Option(
            help="An accuracy to reach, such as 0.9; may be repeated.", show_default=False
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(help="The method to compare with; without it, fedavg.", show_default=False),
    ] = None,
    tuned: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY",
            help="A setting that was tuned for each method, such as optim.lr: methods with "
            "different values are compared. May be repeated.",
            show_default=False,
        ),
    ] = None,
    pictures: Annotated[
        bool, typer.Option("--pictures", help="Write the charts as PNG and SVG too.")
    ] = False,
) -> None:
    """Report on runs."""
    from server_app.tracking.console import show_progress  # noqa: PLC0415
    from univarfl.report.write import report as write_report  # noqa: PLC0415

    for accuracy in target or []:
        if not 0 < accuracy <= 1:
            raise ConfigError("--target", accuracy, "must be above 0 and at most 1, such as 0.9")
    show_progress()
    place = to or directory / "report"
    write_report(directory, place, target or [], baseline, pictures, tuned or [])
