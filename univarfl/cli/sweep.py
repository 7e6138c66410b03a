"""``univarfl sweep``: a run for each combination of values."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from server_app.config.choices import SWEEPS, names_in
from task.errors import ConfigError
from univarfl.cli.arguments import Words

if TYPE_CHECKING:
    from univarfl.sweeps.cells import Cell


def sweep_help() -> str:
    """Return the help of ``univarfl sweep``, with the tables that ``conf/sweep/`` offers."""
    return f"""Run every combination of values that has no result yet.

\b
A key may have several values, in the grammar of Hydra's multirun:
  univarfl sweep method=fedavg,univarfl alpha=0.05,1.0 seed=0,1,2
  univarfl sweep method=univarfl rho=0.1,0.5,1.0 'seed=range(5)' output_dir=runs/rho
  univarfl sweep sweep=univarfl_table1 seed=0 --dry-run
\b
A cell is one combination of values. It is done if output_dir holds a completed run with the same
settings, code and images. The same command again runs only the missing cells, and continues
interrupted and failed runs from their last complete round. So you can interrupt a sweep, add seeds,
or start it twice at the same time. Runs are in-process unless you add engine=flower; the results
are the same, bit for bit.
\b
Tables and figures of the papers ('univarfl papers' lists what they cost). DATA=DIRECTORY, else
./data, has a directory with the name of each data set:
  sweep={" | ".join(names_in(SWEEPS))}
\b
In addition to the runs it writes sweeps/TIME.csv, with the status of each cell, and a log of what
the runs printed.
Exit codes: 0 every cell is done (with --dry-run, listed), 1 a cell failed or cannot be run,
2 bad input, 130 interrupted.
"""


def sweep(
    overrides: Words = None,
    # Hydra's flag, which users of Hydra type: every command line here is a multirun.
    multirun: Annotated[bool, typer.Option("-m", "--multirun", hidden=True)] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            show_default=False,
            help="Runs at the same time; without it, as many as cores and memory allow.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            show_default=False,
            help="List the cells, also those that cannot be run; run none.",
        ),
    ] = False,
) -> None:
    """Run every cell that is not done."""
    if jobs is not None and jobs < 1:
        raise ConfigError("--jobs", jobs, "must be at least 1")

    from univarfl.sweeps.combinations import combinations  # noqa: PLC0415

    combinations(overrides or [])  # answers most mistakes before PyTorch is imported

    from univarfl.sweeps.cells import cells_of  # noqa: PLC0415

    cells = cells_of(overrides or [])
    if dry_run:
        show_cells(cells)
        return

    from univarfl.engines.errors import InterruptedRunError  # noqa: PLC0415
    from univarfl.engines.local.processes import warm_up  # noqa: PLC0415

    warm_up("univarfl.application", "univarfl.sweeps.job")

    from univarfl.sweeps.schedule import Sweep  # noqa: PLC0415

    try:
        Sweep(cells, jobs).run()
    except KeyboardInterrupt:
        raise InterruptedRunError("; run the same command again to continue") from None


def show_cells(cells: "Sequence[Cell]") -> None:
    """Print the cells, and each reason for which some cannot be run once."""
    from univarfl.sweeps.overview import reasons_once  # noqa: PLC0415

    reasons = [(cell.label, cell.reason()) for cell in cells]
    for label, reason in reasons:
        shown = label or "the default settings"
        print(f"{shown}  refused" if reason else shown)
    for line in reasons_once((label, reason) for label, reason in reasons if reason):
        print(f"refused: {line}")
