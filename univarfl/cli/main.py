"""The ``univarfl`` command: its subcommands, error messages and exit codes.

A subcommand imports what it needs when it runs, so that ``--help`` answers at once.
"""

import functools
import importlib.metadata
import signal
import sys
import traceback
import warnings
from typing import Annotated

import click
import typer

from task.errors import ConfigError, DataError, DeviceError, RunError, system_reason
from univarfl.cli.analyse import ANALYSE_HELP, analyse
from univarfl.cli.bench import BENCH_HELP, bench
from univarfl.cli.commands import Commands, answer_to_option
from univarfl.cli.compare import COMPARE_HELP, compare
from univarfl.cli.config import CONFIG_HELP, config
from univarfl.cli.dashboard import DASHBOARD_HELP, dashboard
from univarfl.cli.data import DATA_HELP, data
from univarfl.cli.deploy.application import deploy
from univarfl.cli.doctor import DOCTOR_HELP, doctor
from univarfl.cli.export import EXPORT_HELP, export
from univarfl.cli.forget import FORGET_HELP, forget
from univarfl.cli.list_choices import LIST_HELP, list_choices
from univarfl.cli.papers import PAPERS_HELP, papers
from univarfl.cli.plain_help import use_plain_help
from univarfl.cli.predict import PREDICT_HELP, predict
from univarfl.cli.report import REPORT_HELP, report
from univarfl.cli.runs import RUNS_HELP, runs
from univarfl.cli.sweep import sweep, sweep_help
from univarfl.cli.train import train, train_help
from univarfl.engines.errors import InterruptedRunError
from univarfl.terminal.streams import (
    ESCAPED,
    discard,
    lost_output,
    output_closed,
    prepare_streams,
    print_plain,
)

BAD_INPUT = 2
FAILED = 1
INTERRUPTED = 130
OUTPUT_CLOSED = 141  # as shells report a program that SIGPIPE ended
PRINT_ALONE = {"compare", "config", "doctor", "list", "papers", "runs", "--help", "--dry-run"}

use_plain_help()
application = typer.Typer(
    cls=Commands,
    suggest_commands=False,  # click does it
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def show_version(wanted: bool) -> None:
    """Print the version and end."""
    if wanted:
        print(f"univarfl {importlib.metadata.version('univarfl')}")
        raise typer.Exit


@application.callback()
def univarfl(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=show_version, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Federated learning on non-IID data: UniVarFL and related methods, with Flower."""


application.command(help=train_help(), rich_help_panel="Train")(train)
application.command(help=CONFIG_HELP, rich_help_panel="Train")(config)
application.command(help=sweep_help(), rich_help_panel="Sweep", no_args_is_help=True)(sweep)
application.command(help=BENCH_HELP, rich_help_panel="Sweep")(bench)
application.command("list", help=LIST_HELP, rich_help_panel="Look")(list_choices)
application.command(help=RUNS_HELP, rich_help_panel="Look")(runs)
application.command(help=COMPARE_HELP, rich_help_panel="Look")(compare)
application.command(help=DASHBOARD_HELP, rich_help_panel="Look")(dashboard)
application.command(help=REPORT_HELP, rich_help_panel="Look")(report)
application.command(help=ANALYSE_HELP, rich_help_panel="Look")(analyse)
application.command(help=PAPERS_HELP, rich_help_panel="Sweep")(papers)
application.command(help=DATA_HELP, rich_help_panel="Look")(data)
application.command(help=PREDICT_HELP, rich_help_panel="Use")(predict)
application.command(help=FORGET_HELP, rich_help_panel="Use")(forget)
application.command(help=EXPORT_HELP, rich_help_panel="Use")(export)
application.command(help=DOCTOR_HELP, rich_help_panel="Look")(doctor)
application.add_typer(deploy, name="deploy", rich_help_panel="Deploy")


@functools.cache
def warn(text: str) -> None:
    """Print a warning; each text is printed once."""
    print_plain(f"warning: {text}", sys.stderr)


def main() -> None:
    """Run the command; print an error that the user can fix as one line, and set the exit code."""
    prepare_streams()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM cleans up like Ctrl-C
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
        signal.signal(signal.SIGHUP, signal.default_int_handler)  # the terminal was closed
    warnings.showwarning = lambda message, *_: warn(str(message))
    try:
        code = call_application()
        if code == INTERRUPTED:  # typer returns it after Ctrl-C
            raise InterruptedRunError
        print(end="", flush=True)
        report_lost_output()
    except click.NoSuchOption as error:
        print_plain(f"univarfl: {answer_to_option(error, sys.argv[1:])}", sys.stderr)
        sys.exit(BAD_INPUT)
    except (ConfigError, DataError, DeviceError, click.ClickException) as error:
        text = error.format_message() if isinstance(error, click.ClickException) else str(error)
        print_plain(f"univarfl: {text}", sys.stderr)
        sys.exit(BAD_INPUT)
    except RunError as error:
        print_plain(f"univarfl: {error}", sys.stderr)
        sys.exit(FAILED)
    except (InterruptedRunError, KeyboardInterrupt, click.Abort) as error:
        print_plain(f"univarfl: interrupted{error}", sys.stderr)
        sys.exit(INTERRUPTED)
    except SystemExit:  # click exits so when the reader of its output is gone
        end_if_output_closed()
        raise
    except Exception as error:
        if isinstance(error, BrokenPipeError):
            end_if_output_closed()
        print_plain(f"univarfl: {unexpected(error)}", sys.stderr)
        sys.exit(FAILED)
    if isinstance(code, int):  # of typer.Exit
        sys.exit(code)


def call_application() -> object:
    """Run the command that was typed; without a word, print its help."""
    try:
        return application(prog_name="univarfl", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message())
        return None


def end_if_output_closed() -> None:
    """Exit quietly if the reader of standard output, such as ``head``, has closed the pipe."""
    if output_closed():
        discard(sys.stdout)
        sys.exit(OUTPUT_CLOSED)


def report_lost_output() -> None:
    """Say so if text could not be printed; exit with `FAILED` if the command does nothing else."""
    if (error := lost_output()) is None:
        return
    print_plain(f"univarfl: the output cannot be written: {system_reason(error)}", sys.stderr)
    if not sys.argv[1:] or PRINT_ALONE & {*sys.argv[1:]}:
        sys.exit(FAILED)


def unexpected(error: Exception) -> str:
    """Return the message for an error that we did not foresee; append its traceback to a file."""
    from task.error_messages import describe_error  # noqa: PLC0415
    from task.machine.files import user_state_directory  # noqa: PLC0415

    log = user_state_directory() / "errors.log"
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8", errors=ESCAPED) as file:
            traceback.print_exception(error, file=file)
    except OSError:
        traceback.print_exception(error)
        return describe_error(error)
    return f"{describe_error(error)} (the traceback is in {log})"
