"""The arguments that several commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from univarfl.cli.completion import complete_override

OVERRIDES = "[KEY=VALUE]..."


def find(run: Path) -> Path:
    """Return the directory of a run that was named by path, by name, or as ``latest``."""
    from server_app.runs.lookup import find_run  # noqa: PLC0415

    return find_run(run)


def find_unless_directory(place: Path) -> Path:
    """Return a directory as it is, and otherwise the directory of the run of that name."""
    return place if place.exists() or len(place.parts) > 1 else find(place)


def latest_or_directory(place: Path) -> Path:
    """Return a directory as it is, and the last run for ``latest``."""
    from server_app.runs.lookup import LATEST  # noqa: PLC0415

    return find(place) if str(place) == LATEST and not place.exists() else place


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
Client = Annotated[
    int | None,
    typer.Option(
        metavar="NUMBER",
        min=0,
        help="Use this client's model, if clients keep a part (method=fedbn, fedper, fedrep).",
        show_default=False,
    ),
]
Directory = Annotated[Path, typer.Argument(metavar="DIRECTORY", show_default=False)]


def runs_argument(text: str, callback: Callable[[Path], Path] | None = None) -> Any:
    """Return the argument of commands that look at a directory of runs; it may begin with ``~``.

    Args:
        text: its help.
        callback: changes the value.
    """

    def at_home(place: Path) -> Path:
        from task.machine.files import from_home  # noqa: PLC0415

        found = from_home(place)
        return callback(found) if callback else found

    return typer.Argument(
        metavar="[DIRECTORY]",
        help=text,
        callback=at_home,
        envvar="UNIVARFL_RUNS",
        show_envvar=False,
        show_default=False,
    )
