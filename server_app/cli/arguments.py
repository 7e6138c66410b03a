"""The arguments that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

Words = Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", show_default=False)]
RunDirectory = Annotated[
    Path, typer.Argument(metavar="RUN", help="The directory of a run.", show_default=False)
]
