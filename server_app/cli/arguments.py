"""The arguments that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from server_app.cli.completion import complete_override

OVERRIDES = "[KEY=VALUE]..."


def find(run: Path) -> Path:
    """Return the directory of a run that was named by path, by name, or as ``latest``."""
    from server_app.runs.lookup import find_run  # noqa: PLC0415

    return find_run(run)


Words = Annotated[
    list[str] | None,
    typer.Argument(metavar=OVERRIDES, show_default=False, autocompletion=complete_override),
]
RunDirectory = Annotated[
    Path,
    typer.Argument(
        metavar="RUN",
        help="The directory of a run, its name in $UNIVARFL_RUNS or ./runs, or 'latest'.",
        show_default=False,
        callback=find,
    ),
]
Directory = Annotated[Path, typer.Argument(metavar="DIRECTORY", show_default=False)]
