"""The files of a report: one page with everything, tables, and pictures if wanted."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
from rich.progress import track

from server_app.runs.lookup import latest_run
from server_app.runs.records.record import RUN_JSON
from server_app.runs.records.tables import ANALYSIS
from task.errors import ConfigError, RunError, system_reason
from task.machine.files import write_whole
from univarfl.records.checkpoints import onward
from univarfl.records.csv_tables import frame_as_csv
from univarfl.records.labels import name_of
from univarfl.records.output_directory import make_output_directory
from univarfl.records.reader import read_runs
from univarfl.report.after_training import after_training
from univarfl.report.breakdown.by_class import ByClass
from univarfl.report.breakdown.by_client import ByClient
from univarfl.report.charts.base import Chart
from univarfl.report.charts.of_runs import NOTES, charts
from univarfl.report.comparability import comparability
from univarfl.report.page.headline import headlines
from univarfl.report.page.render import Content, page
from univarfl.report.privacy import privacy, studies_without_protection
from univarfl.report.section import Section, sections_of
from univarfl.report.settings import checked_tuned
from univarfl.report.spent.charts import spent
from univarfl.report.spent.participation import participation
from univarfl.report.spent.targets import simulated_targets
from univarfl.report.summary import GLANCE, Summary
from univarfl.sweeps.ledger import SWEEPS, unmet_cells
from univarfl.terminal.streams import on_terminal, print_plain

TITLE = "<title>univarfl report</title>"
MOST_PRINTED = 30  # rows
SUFFIXES = (".csv", ".md", ".tex", ".png", ".svg")

logger = logging.getLogger("univarfl")


def report(
    directory: Path,
    to: Path,
    targets: Sequence[float] = (),
    baseline: str | None = None,
    pictures: bool = False,
    tuned: Sequence[str] = (),
) -> None:
    """Write a report of the runs in a directory, and print its first table.

    Args:
        directory: the runs, or one run.
        to: the directory of the report.
        targets: accuracies from 0 to 1 for the table of rounds to a target.
        baseline: the method to subtract; None for FedAvg or else the first method.
        pictures: whether to write the charts as PNG and SVG too.
        tuned: settings that belong to the method; see `Summary`.

    Raises:
        ConfigError: there are no runs, none has the baseline's method, or the report cannot be
            written.
        RunError: no run is completed.
    """
    found = read_runs(directory)
    problems = [*found.problems, *unmet_cells(directory / SWEEPS)]
    for problem in problems:
        logger.warning("left out: %s", problem)
    if not found.runs:
        last = directory if (directory / RUN_JSON).exists() else latest_run(directory)
        made = "holds no completed run; 'univarfl train' makes one"
        raise RunError(f"{directory} {made}{onward(last)}")
    summary = Summary(found.runs, checked_tuned(found.runs, tuned))
    content = content_of(summary, problems, targets, label_of_baseline(summary, baseline))
    for warning in content.warnings:
        logger.warning("%s", warning)
    try:
        write_files(content, to, pictures)
    except OSError as error:
        raise ConfigError("--to", to, f"must be writable: {system_reason(error)}") from None
    show(content.tables[GLANCE])
    count = f"{len(summary.frame)} run{'' if len(summary.frame) == 1 else 's'}"
    logger.info("\n%s: %s", count, to / "index.html")


def label_of_baseline(summary: Summary, baseline: str | None) -> str | None:
    """Return the label of the method to subtract, which may be given by its name.

    Raises:
        ConfigError: none of the runs has this method.
    """
    methods = sorted({method for _, method in summary.counted})
    if baseline is None or baseline in methods:
        return baseline
    label = name_of("method", baseline)
    if label not in methods:
        raise ConfigError("--baseline", baseline, f"choose one of {', '.join(methods)}")
    return label


def content_of(
    summary: Summary, problems: Sequence[str], targets: Sequence[float], baseline: str | None
) -> Content:
    """Return what a report shows, and log what is left out of it.

    Args:
        summary: the runs.
        problems: what has been left out of the runs.
        targets: see `report`.
        baseline: the label of the method to subtract; see `report`.
    """
    by_class, by_client = ByClass(summary), ByClient(summary)
    taking_part, damaged = participation(summary)
    analysed, unusable = analyses_of(summary, baseline)
    sections = [
        *summary.accuracy_sections(),
        *sections_of(charts(summary), NOTES),
        *spent(summary),
        after_training(summary),
        *summary.further_sections(targets, baseline),
        simulated_targets(summary, targets),
        taking_part,
        privacy(summary),
        summary.runs_section(),
        by_client.section(baseline),
        *by_class.sections(),
        *analysed,
    ]
    left_out = [*unusable, *by_class.problems, *by_client.problems, *damaged]
    for problem in left_out:
        logger.warning("left out: %s", problem)
    warnings = [*comparability(summary), *studies_without_protection(summary)]
    said = headlines(summary, baseline)
    return Content(summary, sections, [*problems, *left_out], warnings, said)


def write_files(content: Content, to: Path, pictures: bool) -> None:
    """Write the page, the tables and, if wanted, the pictures; earlier ones are deleted.

    Raises:
        OSError: a file cannot be written.
    """
    make_output_directory(to)
    clear(to)
    write_tables(to / "tables", content.tables)
    write_whole(to / "tables" / "tidy.csv", frame_as_csv(content.summary.tidy()))
    if pictures:
        draw([chart for each in content.shown for chart in each.charts], to / "pictures")
    write_whole(to / "index.html", page(content, to).encode())


def show(table: pd.DataFrame) -> None:
    """Print the first rows of a table, and how many are left."""
    print_plain(markdown(table[:MOST_PRINTED]))
    if len(table) > MOST_PRINTED:
        print(f"\nand {len(table) - MOST_PRINTED} more rows on the page")


def analyses_of(summary: Summary, baseline: str | None) -> tuple[list[Section], list[str]]:
    """Return the sections and problems of ``univarfl analyse``; none if no run was analysed."""
    runs = [run for group in summary.counted.values() for run in group]
    if not any((run.directory / ANALYSIS).is_dir() for run in runs):
        return [], []
    from univarfl.report.analyses import Analyses  # noqa: PLC0415  (imports PyTorch)

    analyses = Analyses(summary)
    return analyses.sections(baseline), analyses.problems


def draw(every: Sequence[Chart], place: Path) -> None:
    """Write every chart as a picture into a directory."""
    from univarfl.report.charts.draw import save  # noqa: PLC0415  (imports Matplotlib)

    make_output_directory(place)
    for chart in track(every, "drawing", disable=not on_terminal()):
        save(chart, place)


def write_tables(place: Path, tables: Mapping[str, pd.DataFrame]) -> None:
    """Write each table as CSV, Markdown and LaTeX."""
    make_output_directory(place)
    for title, table in tables.items():
        stem = title.lower().replace(" ", "_")
        write_whole(place / f"{stem}.csv", frame_as_csv(table))
        write_whole(place / f"{stem}.md", f"{markdown(table)}\n".encode())
        style = table.style.hide(axis="index").format(escape="latex", precision=3)
        style = style.format_index(escape="latex", axis=1)
        latex = str(style.to_latex(hrules=True)).replace("±", r"$\pm$")
        write_whole(place / f"{stem}.tex", latex.encode())


def markdown(table: pd.DataFrame) -> str:
    """Return a table as Markdown; text that looks like a number is not reformatted."""

    def cell(value: object) -> object:
        shown = f"{value:.4f}" if isinstance(value, float) else value
        return shown.replace("|", r"\|") if isinstance(shown, str) else shown

    shown = table.map(cell).rename(columns=cell)
    return str(shown.to_markdown(index=False, disable_numparse=True))


def clear(to: Path) -> None:
    """Delete the tables and pictures of an earlier report in the same directory."""
    if (to / "index.html").exists() and TITLE in (to / "index.html").read_text(errors="replace"):
        for place in (to / "tables", to / "pictures"):
            for path in () if place.is_symlink() else place.glob("*"):
                if path.suffix in SUFFIXES:
                    path.unlink()
