"""Write the pages of ``univarfl bench`` from its saved records.

    uv run python -m benchmarks.benchmark        (docs/results/benchmark*.md, in minutes)
    uv run python -m benchmarks.benchmark save   (first adds the runs of runs/bench to the records)

The records, without models, are in benchmarks/records/bench.tar.xz. ``univarfl bench --records``
starts from them, so that only what is missing is run.
"""

import sys
import tempfile
import textwrap
from pathlib import Path

from benchmarks.results import archive, replace_part, save
from univarfl.records.reader import Run, read_run
from univarfl.report.summary import GLANCE
from univarfl.report.write import markdown
from univarfl.sweeps.benchmark.outcome import diverged_runs
from univarfl.sweeps.benchmark.plan import PLAN, read_plan
from univarfl.sweeps.benchmark.run import Benchmark, records_in, unpack_records
from univarfl.sweeps.benchmark.tables import COMMANDS, MINUS, MINUS_OWN, OWN_VALUES, Tables

NAME, DETAILS = "bench", "bench-details"  # the marks of both pages
RUNS = Path("runs", NAME)
STANDINGS = (GLANCE, OWN_VALUES, MINUS, MINUS_OWN)
NOT_SHOWN = (COMMANDS,)  # hundreds of lines; they are on the page that `univarfl bench` writes


def main() -> None:
    """Save the records if asked to, and write the page."""
    if sys.argv[1:] not in ([], ["save"]):
        raise SystemExit(__doc__)
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        if archive(NAME).exists():
            unpack_records(archive(NAME), place)
        if sys.argv[1:]:
            save(NAME, [*runs_to_save(place), *new_runs(place)])
            unpack_records(archive(NAME), place)
        write(Benchmark(read_plan(PLAN), place))


def new_runs(saved: Path) -> list[Run]:
    """Return the runs of `RUNS` that are not among the saved ones."""
    return [run for run in runs_to_save(RUNS) if not (saved / run.directory.name).exists()]


def runs_to_save(place: Path) -> list[Run]:
    """Return the completed runs of a directory, and those whose training diverged."""
    diverged = [read_run(directory) for directory, _ in diverged_runs(place)]
    return [*records_in(place).runs, *diverged]


def write(benchmark: Benchmark) -> None:
    """Replace the tables of the pages."""
    tables = Tables(benchmark.outcome())
    standings: list[str] = []
    details: list[str] = []
    for section in tables.sections():
        title = section.title
        heading = "Standing" if title == GLANCE else title
        note = textwrap.fill(section.note, 120, break_long_words=False, break_on_hyphens=False)
        part = f"## {heading}\n\n{note}\n\n{markdown(section.table)}"
        if len(section.table) and title not in NOT_SHOWN:
            (standings if title in STANDINGS else details).append(part)
    missing = len(benchmark.missing())
    count = f"{len(records_in(benchmark.place).runs)} runs are saved, and {missing} are missing."
    replace_part(NAME, "\n\n".join([*standings, count]))
    replace_part(DETAILS, "\n\n".join(details))


if __name__ == "__main__":
    main()
