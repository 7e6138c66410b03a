"""``univarfl predict`` and ``univarfl export``: a run's model put to work."""

from pathlib import Path
from typing import Annotated

import click
import typer

PREDICT_HELP = """The class of images, and each class's probability, by a run's final model.

\b
  univarfl predict runs/RUN scans/ --to scans.csv
  univarfl predict runs/RUN 'scans/**/*.png' one_more.jpg
  univarfl predict runs/RUN list.txt --device cpu
\b
IMAGES are files, directories (all images in them, however deep), globs, and .txt files with a path
on each line. They are decoded as the training images were: turned upright, in the colours and the
size that the model takes. One that cannot be read is named and left out.
\b
The CSV has a row an image: image, class, and p_CLASS for each class.
Exit codes: 0 written, 1 no image could be read, 2 bad input.
"""

EXPORT_HELP = """A run's final model as files that need nothing of univarfl, with a model card.

\b
  univarfl export runs/RUN
  univarfl export runs/RUN --to model --only onnx
\b
Writes, into RUN/export unless told:
  model.pt2        for torch.export.load
  model.onnx       for ONNX Runtime and others; needs univarfl[onnx]
  model_card.md    what it is, was trained on and is worth, and how to use it
  model_card.json  the same for programs
\b
Both take images as bytes, uint8 [images, height, width, channels] of any size, and resize and
normalise them; out come probabilities. Each file is tried against PyTorch before it is kept.
Exit codes: 0 written, 1 a file does not answer as PyTorch does, 2 bad input.
"""

Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run's directory.", show_default=False)]


def predict(
    run: Run,
    images: Annotated[list[str], typer.Argument(metavar="IMAGES...", show_default=False)],
    to: Annotated[Path, typer.Option(metavar="FILE", help="The CSV.")] = Path("predictions.csv"),
    device: Annotated[
        str, typer.Option(click_type=click.Choice(["auto", "cpu", "cuda"]), help="Where.")
    ] = "auto",
) -> None:
    """Classify images."""
    from server_app.inference.predict import predict as write  # noqa: PLC0415
    from server_app.progress import show_progress  # noqa: PLC0415

    show_progress()
    write(run, images, to, device)  # type: ignore[arg-type]  # Choice has checked it


def export(
    run: Run,
    to: Annotated[
        Path | None, typer.Option(metavar="DIRECTORY", help="Where to write.", show_default=False)
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="FORMAT", help="pt2 or onnx; may be repeated.")
    ] = None,
) -> None:
    """Write a model's files."""
    from server_app.inference.export import export as write  # noqa: PLC0415
    from server_app.progress import show_progress  # noqa: PLC0415

    show_progress()
    write(run, to or run / "export", only or [])
