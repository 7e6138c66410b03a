"""``univarfl analyse``: measures of the models of runs."""

from pathlib import Path
from typing import Annotated

import typer

from task.errors import ConfigError
from univarfl.cli.arguments import find_unless_directory

ANALYSE_HELP = """Measure the models of runs, such as curvature and drift.

\b
  univarfl train method=univarfl watch.models_every=2
  univarfl analyse runs
  univarfl analyse runs/RUN --only curvature --only landscape
\b
Measures (--only):
  singular_values   of the classifier: the global model's and, where kept, the clients'
  spread            of class probabilities and features, before and after aggregation *
  drift             norm, cosine and distance of the clients' updates *
  training_loss     the global model's loss on all training images *
  curvature         top Hessian eigenvalue and trace; how the clients' Hessians differ in norm
                    (H_N) and direction (H_D), as in FedAlign's paper
  release_curvature H_N and H_D as FedAlign's program computes them *
  landscape         loss along the two top eigenvectors
  features          t-SNE by client, class and domain
  class_features    t-SNE of one class's test images (--class) in the clients' models *
  cost              FLOPs, numbers kept in memory, and seconds
\b
* These measures need saved models: train with watch.models_every=5 to save the models of every
fifth round in the run directory. A saved round has the global model before it, the model of each
participant and the global model after it. Saving models changes no result.
\b
Each measure writes a CSV file and pictures into RUN/analysis; 'univarfl report' compares them with
those of other runs. Exit codes: 0 all that the runs allow was measured, 1 a measure failed, 2 bad
input.
"""


def analyse(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="Runs, also by name or 'latest', or directories of runs.",
            show_default=False,
            callback=lambda places: [find_unless_directory(place) for place in places],
        ),
    ],
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="MEASURE", help="Measure only this; may be repeated."),
    ] = None,
    images: Annotated[
        int, typer.Option(help="The most images of each client and of the test set.")
    ] = 100,
    class_name: Annotated[
        str | None,
        typer.Option(
            "--class", metavar="NAME", help="The class of class_features; without it, the first."
        ),
    ] = None,
) -> None:
    """Measure runs."""
    from server_app.tracking.console import show_progress  # noqa: PLC0415
    from univarfl.analysis.analyse import analyse as measure  # noqa: PLC0415

    if images < 2:
        raise ConfigError("--images", images, "must be at least 2")
    show_progress()
    measure(runs, only or [], images, class_name)
