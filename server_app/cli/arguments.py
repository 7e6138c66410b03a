"""The arguments that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

OVERRIDES = "[KEY=VALUE]..."

Words = Annotated[list[str] | None, typer.Argument(metavar=OVERRIDES, show_default=False)]
RunDirectory = Annotated[
    Path, typer.Argument(metavar="RUN", help="The directory of a run.", show_default=False)
]
Directory = Annotated[Path, typer.Argument(metavar="DIRECTORY", show_default=False)]
