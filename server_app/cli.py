"""The ``univarfl`` command."""

import functools
import signal
import sys
import traceback
import warnings
from pathlib import Path
from typing import Annotated

import click
import typer
import typer.core

from server_app.choices import SWEEPS, choices, names_in
from server_app.deploy.cli import deploy
from server_app.failures import InterruptedRunError
from server_app.inference.cli import EXPORT_HELP, PREDICT_HELP, export, predict
from task.errors import ConfigError, DataError, DeviceError, RunError

BAD_INPUT = 2
FAILED = 1
INTERRUPTED = 130

typer.core.HAS_RICH = False  # it would escape the brackets of a help that is plain text

application = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


application.add_typer(deploy, name="deploy")
application.command(help=PREDICT_HELP)(predict)
application.command(help=EXPORT_HELP)(export)


@application.callback()
def univarfl() -> None:
    """Federated learning on clients whose data differ: UniVarFL and its relatives, with Flower."""


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
    from server_app.engines.superlink import superlink_of  # noqa: PLC0415
    from server_app.resuming import whole_words  # noqa: PLC0415

    try:
        words = whole_words(overrides or [])
        config = compose_config(words)
        with superlink_of(config.engine) as superlink:
            from server_app.train import train_experiment  # noqa: PLC0415  (torch, meanwhile)

            train_experiment(checked(config), words, superlink)
    except KeyboardInterrupt:
        raise InterruptedRunError from None  # typer would make a success of it


def sweep_help() -> str:
    """The help of ``univarfl sweep``, with the tables that ``conf/sweep/`` offers."""
    return f"""Run an experiment for every combination of values, whichever are not done yet.

\b
A value may be several, in the grammar of Hydra's multirun; -m may stand before them or not:
  univarfl sweep method=fedavg,univarfl alpha=0.05,1.0 seed=0,1,2
  univarfl sweep method=univarfl rho=0.1,0.5,1.0 'seed=range(5)' output_dir=runs/rho
  univarfl sweep sweep=univarfl_table1 seed=0 --dry-run
\b
Started again, it runs what is missing, and goes on with what was ended or failed after its last
full round. A run counts as done if output_dir holds a completed one of the same settings by the
same code, whoever ran it. So a sweep can be interrupted, given more seeds, or started twice at
once. Runs are in-process unless engine=flower is said; the results are the same, bit for bit.
\b
Tables of the papers ('univarfl papers' tells what they cost), for which DATA=DIRECTORY holds a
directory of each data set's name, else ./data:
  sweep={" | ".join(names_in(SWEEPS))}
\b
Beside the runs it leaves sweeps/TIME.csv, with each cell's status, and a log of what runs printed.
Exit codes: 0 every cell is done, 1 a cell failed or cannot be run, 2 bad input, 130 interrupted.
"""


@application.command(help=sweep_help())
def sweep(
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE[,VALUE...]]...", show_default=False)
    ] = None,
    multirun: Annotated[bool, typer.Option("-m", "--multirun", hidden=True)] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            show_default=False, help="Runs at a time; else as many as cores and memory allow."
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", show_default=False, help="Check and list the cells; run none."),
    ] = False,
) -> None:
    """Run every cell that is not done."""
    from server_app.sweep.forking import warm_up  # noqa: PLC0415

    if jobs is not None and jobs < 1:
        raise ConfigError("--jobs", jobs, "must be at least 1")
    try:
        if not dry_run:
            warm_up("server_app.sweep.job")
        from server_app.sweep.cells import cells_of  # noqa: PLC0415
        from server_app.sweep.schedule import Sweep  # noqa: PLC0415

        cells = cells_of(overrides or [])
        if dry_run:
            for cell in cells:
                print(cell.label + (f"  refused: {reason}" if (reason := cell.reason()) else ""))
            return
        Sweep(cells, jobs).run()
    except KeyboardInterrupt:
        raise InterruptedRunError from None


REPORT_HELP = """Tables, pictures and a page of the runs in a directory.

\b
  univarfl report runs
  univarfl report runs/digits --target 0.9 --target 0.95 --baseline fedprox
\b
Made from the records alone: accuracy as mean ± deviation over seeds (last round, mean of the last
five, best by validation), the papers' numbers beside runs of their settings, other metrics,
rounds to a target, and paired differences on the same seeds; as CSV, Markdown and LaTeX, pictures
as PNG and SVG, and all of it in one index.html that needs no network. Records that cannot be read,
and runs without a result, are named and left out.
"""


@application.command(help=REPORT_HELP)
def report(
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="[DIRECTORY]",
            help="Of runs, or of one run; else $UNIVARFL_RUNS, else ./runs.",
            envvar="UNIVARFL_RUNS",
            show_envvar=False,
            show_default=False,
        ),
    ] = Path("runs"),
    to: Annotated[
        Path | None,
        typer.Option(
            metavar="DIRECTORY",
            help="Where to write; DIRECTORY/report unless told.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        list[float] | None,
        typer.Option(help="An accuracy to be reached, as 0.9.", show_default=False),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(help="The method to subtract; fedavg unless told.", show_default=False),
    ] = None,
) -> None:
    """Report on runs."""
    from server_app.progress import show_progress  # noqa: PLC0415
    from server_app.report.write import report as write_report  # noqa: PLC0415

    for accuracy in target or []:
        if not 0 < accuracy <= 1:
            raise ConfigError("--target", accuracy, "must be a share of 1, as 0.9")
    show_progress()
    write_report(directory, to or directory / "report", target or [], baseline)


ANALYSE_HELP = """What the models of runs show: curvature, spread, drift, features, cost.

\b
  univarfl train method=univarfl watch.models_every=2
  univarfl analyse runs
  univarfl analyse runs/RUN --only curvature --only landscape
\b
Measures (--only):
  singular_values  of the classifier: the global model's and, where kept, the clients'
  spread           of class probabilities and features, before and after aggregation *
  drift            length, cosine and distance of the clients' updates *
  curvature        top Hessian eigenvalue and trace, H_N and H_D between clients
  landscape        loss along the two top eigenvectors
  features         t-SNE by client, class and domain
  cost             FLOPs, numbers kept in memory, and seconds
\b
* of the rounds whose models were kept: watch.models_every=5 keeps every fifth round's in the run's
directory, a model for each participant and two more, and changes no result.
\b
Writes a CSV and pictures for each into RUN/analysis; 'univarfl report' shows them beside those of
other runs. Exit codes: 0 all was measured that the runs have, 1 something failed, 2 bad input.
"""


@application.command(help=ANALYSE_HELP)
def analyse(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Runs, or directories of them.", show_default=False),
    ],
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="MEASURE", help="Measure this alone; may be repeated."),
    ] = None,
    images: Annotated[
        int, typer.Option(help="Of each client, and of the test set, at most so many images.")
    ] = 100,
) -> None:
    """Measure runs."""
    from server_app.analysis.analyse import analyse as measure  # noqa: PLC0415
    from server_app.progress import show_progress  # noqa: PLC0415

    if images < 2:
        raise ConfigError("--images", images, "must be at least 2")
    show_progress()
    measure(runs, only or [], images)


PAPERS_HELP = """The papers' tables that can be repeated: what is expected, and what it costs.

\b
  univarfl papers
  univarfl papers univarfl_table1 feduv_table2
\b
A line for each number: its sweep (univarfl sweep sweep=NAME), data set, method and settings, the
published test accuracy, and an estimate of what one run takes: operations of its local training,
and hours of one process of this machine, from a step timed now. Each number is of three such runs.
"""


@application.command(help=PAPERS_HELP)
def papers(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[SWEEP]...", show_default=False)
    ] = None,
) -> None:
    """List the papers' tables."""
    from server_app.papers import papers as table_of  # noqa: PLC0415

    print(table_of(names or []).to_markdown(index=False))


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
    except (InterruptedRunError, KeyboardInterrupt, click.Abort) as onward:
        print(f"univarfl: interrupted{onward}", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except Exception as error:
        print(f"univarfl: {unexpected(error)}", file=sys.stderr)
        sys.exit(FAILED)


def unexpected(error: Exception) -> str:
    """What to say of an error that nobody foresaw; its traceback goes to a file."""
    from task.causes import explained  # noqa: PLC0415
    from task.site import state_directory  # noqa: PLC0415

    log = state_directory() / "errors.log"
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a") as file:
            traceback.print_exception(error, file=file)
    except OSError:
        traceback.print_exception(error)
        return explained(error)
    return f"{explained(error)} (where it came from is in {log})"
