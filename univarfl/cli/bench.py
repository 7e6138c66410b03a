"""``univarfl bench``: methods tuned alike, on the same cells, ranked."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from task.errors import ConfigError, RunError
from univarfl.cli.arguments import Words

BENCH_HELP = """Compare methods that are tuned alike, and rank them.

\b
  univarfl bench                                       every method of the plan
  univarfl bench method=fedavg,univarfl                two of them
  univarfl bench method=mine method.weight=0.01,0.1,1  your own method and the values to try
  univarfl bench --records benchmarks/records/bench.tar.xz method=mine method.weight=0.01,0.1,1
\b
A cell is one set of data, split and rounds. For each method, three values of one setting are tried
on one cell and scored on validation images, with seeds that the tables do not use. The setting is
the method's coefficient or, without one, the learning rate. Every cell and seed is then run with
the best value and with the default. The same command again runs only what is missing.
conf/benchmark.yaml is the plan. DATA (default: ./data) is the directory of the data sets; cells
without data are left out.
\b
It writes DIRECTORY/report/index.html: average ranks with the critical difference, accuracy by cell,
differences from FedAvg, rounds and seconds, cost, and the command of each cell. --records adds
saved runs. Runs of another version of the code are used too; the page then says so.
Exit codes: 0 complete; 1 a run failed or cannot start, or runs are missing with --write; 2 bad
input; 130 interrupted.
"""


def bench(
    overrides: Words = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", show_default=False, help="The plan; without it, conf/benchmark.yaml."
        ),
    ] = None,
    to: Annotated[
        Path, typer.Option(metavar="DIRECTORY", help="Where the runs and the page are.")
    ] = Path("runs/bench"),
    records: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help="Saved records to add first."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(show_default=False, help="Runs at the same time; see univarfl sweep."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", show_default=False, help="List what is missing.")
    ] = False,
    write: Annotated[
        bool, typer.Option("--write", show_default=False, help="Write the page; run nothing.")
    ] = False,
) -> None:
    """Run a benchmark."""
    if jobs is not None and jobs < 1:
        raise ConfigError("--jobs", jobs, "must be at least 1")

    from univarfl.engines.local.processes import warm_up  # noqa: PLC0415
    from univarfl.sweeps.benchmark.plan import PLAN, read_plan  # noqa: PLC0415

    chosen = read_plan(plan or PLAN)
    if not (dry_run or write):
        warm_up("univarfl.application", "univarfl.sweeps.job")

    from server_app.tracking.console import show_progress  # noqa: PLC0415
    from univarfl.sweeps.benchmark.run import Benchmark, unpack_records  # noqa: PLC0415

    show_progress()
    if dry_run:
        with tempfile.TemporaryDirectory(prefix="univarfl-bench-") as other:
            more = Path(other)
            if records is not None:
                unpack_records(records, more)
            benchmark = Benchmark(chosen, to, overrides or [], jobs, more)
            for entry in benchmark.missing():
                print(f"{entry.cell}  {entry.method} {entry.value} seed={entry.seed}")
            print(benchmark.missing_text() or "no run is missing")
        return
    if records is not None:
        unpack_records(records, to)
    benchmark = Benchmark(chosen, to, overrides or [], jobs)
    if not write:
        benchmark.run()
        return
    benchmark.write()
    if missing := benchmark.missing_text():
        raise RunError(f"the benchmark is incomplete: {missing}; repeat without --write")
