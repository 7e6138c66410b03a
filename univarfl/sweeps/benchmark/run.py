"""``univarfl bench``: run what a benchmark lacks, and write its page."""

import json
import logging
import lzma
import tarfile
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from task.errors import ConfigError, RunError, system_reason
from task.machine.files import write_whole
from task.machine.regular import regular
from univarfl.records.output_directory import make_output_directory
from univarfl.records.reader import Collection, Run, has_record, read_runs
from univarfl.report.charts.of_runs import NOTES
from univarfl.report.comparability import comparability
from univarfl.report.page.render import Content, page
from univarfl.report.section import sections_of
from univarfl.report.summary import GLANCE, Summary
from univarfl.report.write import clear, markdown, write_tables
from univarfl.sweeps.benchmark.charts import charts_of
from univarfl.sweeps.benchmark.commands import TUNED
from univarfl.sweeps.benchmark.outcome import BenchmarkRuns, check_cells, diverged_settings
from univarfl.sweeps.benchmark.plan import Entry, Plan, read_words, trials, with_methods
from univarfl.sweeps.benchmark.tables import Tables
from univarfl.sweeps.cells import Cell, cells_of
from univarfl.sweeps.overview import reasons_once
from univarfl.sweeps.schedule import Sweep
from univarfl.terminal.streams import print_plain

ADDED = "methods.json"  # methods that a command added to the plan, with what is tuned
REPORT = "report"

logger = logging.getLogger("univarfl")


class Benchmark:
    """A plan, and the directory with its runs.

    Args:
        plan: the benchmark.
        place: the directory of its runs and its page.
        words: which methods are run, and the tuned setting of a new one; see `read_words`.
        jobs: how many runs at a time; None for as many as cores and memory allow.
        more: another directory of runs that count, which is only read.

    Raises:
        ConfigError: the words name an unknown method, or a setting that is not tuned.
    """

    def __init__(
        self,
        plan: Plan,
        place: Path,
        words: Sequence[str] = (),
        jobs: int | None = None,
        more: Path | None = None,
    ) -> None:
        self.place, self._jobs = place, jobs
        self._places = [place] if more is None else [place, more]
        check_cells(plan)
        known = with_methods(plan, read_added(place))
        adds = any(not word.startswith("method=") for word in words)
        self.methods, new = read_words(plan if adds else known, words)
        self.plan = with_methods(known, new)
        for method in new:
            for trial in trials(self.plan, method):
                cells_of(trial.words)  # refuses what cannot be run
        self._new = new
        self._problems: list[str] = []
        self._set_aside: list[str] = []  # why records did not count at the last look

    def missing(self) -> list[Entry]:
        """Return the runs that are still to be made, as far as they are known.

        The runs with a chosen value are known when all trials of the method are completed.
        """
        outcome = self.outcome()
        return outcome.missing([*self._trials(), *self._rows(outcome)])

    def run(self) -> None:
        """Run the missing trials, then the missing rows, and write the page.

        Raises:
            RunError: some runs failed or cannot be made; all others are completed.
        """
        self.place.mkdir(parents=True, exist_ok=True)
        if self._new:
            added = {**read_added(self.place), **self._new}
            write_whole(self.place / ADDED, json.dumps(added, indent=1).encode())
        try:
            self._complete(self.outcome().missing(self._trials()), "trials")
            outcome = self.outcome()
            self._complete(outcome.missing(self._rows(outcome)), "rows")
        finally:
            self.write()
        if self._problems:
            lines = "".join(f"\n  {line}" for line in self._problems)
            raise RunError(f"the benchmark is incomplete{lines}")

    def missing_text(self) -> str:
        """Return how many runs are still to be made; empty if there are none."""
        if not (missing := self.missing()):
            return ""
        untuned = any(entry.seed in self.plan.tuning.seeds for entry in missing)
        later = ", and those with values that tuning has yet to choose" if untuned else ""
        return f"{len(missing)} {'run is' if len(missing) == 1 else 'runs are'} missing{later}"

    def outcome(self) -> BenchmarkRuns:
        """Return the completed runs, and those that diverged."""
        found = [records_in(place) for place in self._places]
        self._set_aside = [problem for each in found for problem in each.problems]
        diverged = set().union(*map(diverged_settings, self._places))
        return BenchmarkRuns(self.plan, [run for each in found for run in each.runs], diverged)

    def write(self) -> None:
        """Write the page and the tables, and print the first one; nothing without a run."""
        outcome = self.outcome()
        tables = Tables(outcome)
        runs = tables.runs(TUNED)
        if not runs:
            logger.info("no row with a tuned value has a run yet, so there is no page")
            return
        summary = Summary(sorted(set_of(runs), key=lambda run: run.directory.name))
        drawn = sections_of(charts_of(tables.frame, list(self.plan.cells)), NOTES)
        problems = [*self._problems, *self._set_aside, *outcome.left_out(), *self._gaps(outcome)]
        sections = [*tables.sections(), *drawn]
        content = Content(summary, sections, problems, comparability(summary))
        to = self.place / REPORT
        try:
            make_output_directory(to)
            clear(to)
            write_tables(to / "tables", content.tables)
            write_whole(to / "index.html", page(content, to).encode())
        except OSError as error:
            raise ConfigError("--to", to, f"must be writable: {system_reason(error)}") from None
        print_plain(markdown(content.tables[GLANCE]))
        logger.info("\n%d runs: %s", len(tables.frame), to / "index.html")

    def _gaps(self, outcome: BenchmarkRuns) -> list[str]:
        """Return a line for each cell with the number of its missing runs."""
        every = [each for method in self.plan.methods for each in outcome.rows(method)]
        counts = Counter(each.cell for each in outcome.missing(every))
        return [f"{cell}: {count} runs are missing" for cell, count in counts.items()]

    def _trials(self) -> Iterator[Entry]:
        for method in self.methods:
            yield from trials(self.plan, method)

    def _rows(self, outcome: BenchmarkRuns) -> Iterator[Entry]:
        for method in self.methods:
            yield from outcome.rows(method)

    def _complete(self, entries: Sequence[Entry], what: str) -> None:
        """Run entries; what cannot be run is noted and left out."""
        cells, refused = self._cells(entries)
        self._problems += reasons_once(refused)
        for line in reasons_once(refused):
            logger.warning("left out: %s", line)
        if not cells:
            return
        logger.info("%d %s to run", len(cells), what)
        problem = ""
        try:
            Sweep(cells, self._jobs).run()
        except RunError as error:
            problem = str(error)
        # A run that diverged has a result, the worst.
        if len(self.outcome().missing(entries)) > len(refused):
            unread = "some records cannot be read; delete them, and run this again"
            self._problems.append(problem or "\n  ".join([unread, *self._set_aside]))

    def _cells(self, entries: Iterable[Entry]) -> tuple[list[Cell], list[tuple[str, str]]]:
        """Return the cells of a sweep, and label and reason of the entries that have none."""
        cells: dict[str, Cell] = {}
        refused = []
        for entry in entries:
            label = " ".join([entry.cell, entry.method, entry.value, f"seed={entry.seed}"])
            try:
                (cell,) = cells_of([*entry.words, f"output_dir={self.place}"])
            except ConfigError as error:
                refused.append((label, str(error)))
                continue
            if reason := cell.reason():
                refused.append((label, reason))
            else:
                cells[cell.settings] = Cell(cell.words, label, cell.experiment)
        return list(cells.values()), refused


def set_of(runs: Iterable[Run]) -> list[Run]:
    """Return runs without repetitions."""
    return list({run.directory.name: run for run in runs}.values())


def records_in(place: Path) -> Collection:
    """Return the completed runs in a directory, and why others do not count."""
    if not place.is_dir() or not any(map(has_record, place.iterdir())):
        return Collection([], [])
    return read_runs(place)


def read_added(place: Path) -> Mapping[str, str]:
    """Return the methods that earlier commands added to the plan, with what is tuned.

    Raises:
        ConfigError: their file is damaged.
    """
    path = place / ADDED
    if not path.exists():
        return {}
    try:
        added = json.loads(path.read_text())
        return {str(name): str(word) for name, word in added.items()}
    except (OSError, ValueError, AttributeError):
        raise ConfigError("output_dir", path, "is damaged; delete it") from None


def unpack_records(archive: Path, place: Path) -> None:
    """Add saved records to a directory of runs; a record that is there already is kept.

    Raises:
        ConfigError: the archive cannot be read.
    """
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place, prefix=".records-") as new:
        try:
            with tarfile.open(regular(archive)) as tar:
                tar.extractall(new, filter="data")
        except tarfile.ReadError:
            raise ConfigError(
                "--records", archive, "is not a whole tar archive of records"
            ) from None
        except (OSError, EOFError, lzma.LZMAError, zlib.error, tarfile.TarError) as error:
            reason = system_reason(error) if isinstance(error, OSError) else str(error)
            raise ConfigError("--records", archive, f"cannot be read: {reason}") from None
        for record in sorted(Path(new).iterdir()):
            if not (place / record.name).exists():
                record.rename(place / record.name)
