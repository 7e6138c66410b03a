"""``univarfl export``: the model of a run, for programs without univarfl."""

from pathlib import Path
from typing import Annotated

import typer

from univarfl.cli.arguments import Client, RunDirectory

EXPORT_HELP = """Write a run's model as files that do not need univarfl.

\b
  univarfl export runs/RUN
  univarfl export runs/RUN --to model --only onnx
  univarfl export runs/RUN --client 3      if each client has a model of its own
\b
Writes into RUN/export (RUN/export-client-3), or into the directory --to:
  model.pt2        for torch.export.load
  model.onnx       for ONNX Runtime and others; needs univarfl[onnx]
  model_card.md    what the model is, its training data, its accuracy, and how to use it
  model_card.json  the same for programs
\b
Both models take images as bytes, uint8 [images, height, width, channels] of any size, and resize
and normalise them; they return probabilities. Each file is compared with PyTorch before it is kept.
Exit codes: 0 written, 1 a file gives other answers than PyTorch, 2 bad input.
"""


def export(
    run: RunDirectory,
    to: Annotated[
        Path | None, typer.Option(metavar="DIRECTORY", help="Where to write.", show_default=False)
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="FORMAT", help="pt2 or onnx; may be repeated.")
    ] = None,
    client: Client = None,
) -> None:
    """Write a model's files."""
    from server_app.tracking.console import show_progress  # noqa: PLC0415
    from univarfl.inference.export import export as write  # noqa: PLC0415

    show_progress()
    place = run / ("export" if client is None else f"export-client-{client}")
    write(run, to or place, only or [], client)
