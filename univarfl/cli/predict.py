"""``univarfl predict``: the classes of images, by the model of a run."""

from pathlib import Path
from typing import Annotated

import click
import typer

from univarfl.cli.arguments import Client, RunDirectory

PREDICT_HELP = """Predict the classes of images with a run's model.

\b
  univarfl predict runs/RUN scans/ --to scans.csv
  univarfl predict runs/RUN 'scans/**/*.png' one_more.jpg
  univarfl predict runs/RUN list.txt --device cpu
  univarfl predict runs/RUN scans/ --client 3      if each client has a model of its own
\b
IMAGES are files, directories (with all images below them), globs, and .txt files with one path on
each line. They are decoded like the training images: turned upright, in the colours and the size
that the model takes. An image that cannot be read is named and left out.
\b
The CSV file has one row for each image: image, class, and p_CLASS for each class.
Exit codes: 0 written, 1 no image could be read, 2 bad input.
"""


def predict(
    run: RunDirectory,
    images: Annotated[list[str], typer.Argument(metavar="IMAGES...", show_default=False)],
    to: Annotated[Path, typer.Option(metavar="FILE", help="The CSV file to write.")] = Path(
        "predictions.csv"
    ),
    device: Annotated[
        str,
        typer.Option(click_type=click.Choice(["auto", "cpu", "cuda"]), help="The device to use."),
    ] = "auto",
    client: Client = None,
) -> None:
    """Classify images."""
    from server_app.tracking.console import show_progress  # noqa: PLC0415
    from univarfl.inference.predict import predict as write  # noqa: PLC0415

    show_progress()
    write(run, images, to, device, client)  # type: ignore[arg-type]  # Choice allows only these
