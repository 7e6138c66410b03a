"""``univarfl data``: a data set, and its partition among the clients."""

from pathlib import Path
from typing import Annotated

import typer

from univarfl.cli.arguments import Words

DATA_HELP = """Prepare a data set, and show its partition among the clients.

\b
  univarfl data data=pacs data.root=PACS
  univarfl data alpha=0.01 num_clients=20
  univarfl data data=folder data.root=my_images
  univarfl data data=folder data.root=my_images partition=domains num_clients=3
\b
The overrides are those of 'univarfl train'; resume=RUN has those of that run. Images are decoded
once, into $UNIVARFL_CACHE, else ~/.cache/univarfl. Later runs with the same data and image size
read them from there.
\b
Prints the number of images for each client and class, and measures of skew. Writes split.csv
(images for each client, split, class and domain), split.png, images.png (a contact sheet) and, if
images were left out, skipped.csv. Images that are there twice are in duplicates.csv.
"""


def data(
    overrides: Words = None,
    to: Annotated[
        Path,
        typer.Option(
            metavar="DIRECTORY", help="Where to write; without it, ./split.", show_default=False
        ),
    ] = Path("split"),
) -> None:
    """Prepare a data set, and show its partition."""
    from server_app.config.composition import compose_experiment  # noqa: PLC0415
    from server_app.config.resuming import whole_words  # noqa: PLC0415

    experiment = compose_experiment(whole_words(overrides or []))

    from server_app.tracking.console import show_progress  # noqa: PLC0415
    from univarfl.report.split.report import report_split  # noqa: PLC0415

    show_progress()
    report_split(experiment, to)
