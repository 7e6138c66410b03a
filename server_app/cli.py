"""The ``univarfl`` command."""

import functools
import signal
import sys
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import click
import typer

from server_app.choices import choices
from task.errors import ConfigError, DataError, DeviceError, RunError

BAD_INPUT = 2
FAILED = 1
INTERRUPTED = 130

application = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@application.callback()
def univarfl() -> None:
    """Federated learning on clients whose data differ: UniVarFL and its relatives, with Flower."""


class InterruptedRunError(Exception):
    """A person ended the run."""


def train_help() -> str:
    """The help of ``univarfl train``, with the choices that ``conf/`` offers."""
    groups = "\n".join(f"  {group}={' | '.join(names)}" for group, names in choices().items())
    return f"""Run one experiment, watch it, and keep its record.

\b
Without overrides: UniVarFL on handwritten digits, ten clients, in a few minutes on a CPU.
\b
An override is key=value, as conf/config.yaml has the keys:
  univarfl train method=fedavg alpha=0.05 rho=0.5 seed=1
  univarfl train method.energy_weight=0          only L_V of UniVarFL
  univarfl train method=univarfl+fedprox         two methods at once
  univarfl train method=fedalign model=resnet56 data.image_size=8
  univarfl train partition=iid num_clients=20 strategy.weighting=uniform
  univarfl train engine=inprocess rounds=2       in one process, without Ray
\b
Choices:
{groups}
\b
Keys people sweep: alpha rho seed rounds num_clients local_epochs batch_size
\b
The record goes to output_dir, else $UNIVARFL_RUNS, else ./runs, one directory a run:
run.json, rounds.csv, clients.csv, model.safetensors, curves.png, run.log.
\b
Exit codes: 0 completed, 1 the run failed, 2 bad input (nothing was run), 130 interrupted.
"""


@application.command(help=train_help())
def train(
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", show_default=False)
    ] = None,
) -> None:
    """Run one experiment."""
    # Imported here because Hydra, torch and Flower take seconds that --help need not wait for.
    from server_app.composition import checked, compose_config  # noqa: PLC0415
    from server_app.engines.superlink import SuperLink  # noqa: PLC0415

    words = overrides or []
    try:
        config = compose_config(words)
        with SuperLink() if config.engine == "flower" else nullcontext() as superlink:
            from server_app.train import train_experiment  # noqa: PLC0415  (torch, meanwhile)

            train_experiment(checked(config), words, superlink)
    except KeyboardInterrupt:
        raise InterruptedRunError from None  # typer would make a success of it


DATA_HELP = """Prepare a data set, and show how it is divided among the clients.

\b
  univarfl data data=pacs data.root=PACS
  univarfl data alpha=0.01 num_clients=20
  univarfl data data=folder data.root=my_images
  univarfl data data=folder data.root=my_images partition=domains num_clients=3
\b
Overrides are those of 'univarfl train'. Images are decoded once, into $UNIVARFL_CACHE, else
~/.cache/univarfl; every later run of the same data and size starts from there.
\b
Prints images per client and class, and how skewed they are; writes split.csv (images per client,
split, class and domain), split.png, images.png (a contact sheet) and, where images had to be left
out, skipped.csv.
"""


@application.command(help=DATA_HELP)
def data(
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", show_default=False)
    ] = None,
    to: Annotated[
        Path,
        typer.Option(
            metavar="DIRECTORY", help="Where to write; ./split unless told.", show_default=False
        ),
    ] = Path("split"),
) -> None:
    """Prepare, inspect and picture a data set's division."""
    from server_app.composition import compose_experiment  # noqa: PLC0415
    from server_app.progress import show_progress  # noqa: PLC0415
    from server_app.split_report import report_split  # noqa: PLC0415

    show_progress()
    report_split(compose_experiment(overrides or []), to)


@functools.cache
def warn(text: str) -> None:
    """Print a warning, once however often it is given."""
    print(f"warning: {text}", file=sys.stderr)


def main() -> None:
    """Run the command, and turn every error a person can cause into one line and an exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as Ctrl-C does: cleanly
    warnings.showwarning = lambda message, *_: warn(str(message))
    try:
        application(standalone_mode=False)
    except (ConfigError, DataError, DeviceError, click.ClickException) as error:
        text = error.format_message() if isinstance(error, click.ClickException) else str(error)
        print(f"univarfl: {text}", file=sys.stderr)
        sys.exit(BAD_INPUT)
    except RunError as error:
        print(f"univarfl: {error}", file=sys.stderr)
        sys.exit(FAILED)
    except (InterruptedRunError, KeyboardInterrupt, click.Abort):
        print("univarfl: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
