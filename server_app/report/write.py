"""The files of a report: tables, pictures, and one page with all of them."""

import base64
import logging
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import matplotlib as mpl
import pandas as pd
from rich.progress import track

from server_app.report.analyses import Analyses
from server_app.report.by_class.tables import ByClass
from server_app.report.canvas import STYLE, Picture
from server_app.report.page.render import GLANCE, Content, page
from server_app.report.pictures import pictures
from server_app.report.privacy import privacy_table, studies_without_protection
from server_app.report.summary import Summary
from server_app.runs.records.csv_files import frame_as_csv
from server_app.runs.records.reader import read_runs
from server_app.sweep.ledger import SWEEPS, unmet_cells
from task.errors import ConfigError, RunError, system_reason
from task.files import write_whole

TITLE = "<title>univarfl report</title>"
SUFFIXES = (".csv", ".md", ".tex", ".png", ".svg")

logger = logging.getLogger("univarfl")


def report(
    directory: Path, to: Path, targets: Sequence[float] = (), baseline: str | None = None
) -> None:
    """Write a report of the runs in a directory, and print its first table.

    Args:
        directory: the runs, or one run.
        to: the directory of the report.
        targets: accuracies from 0 to 1 for the table of rounds to a target.
        baseline: the method to subtract; None for FedAvg or else the first method.

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
        raise RunError(f"{directory} holds no completed run; run 'univarfl train' first")
    summary = Summary(found.runs)
    if baseline is not None:
        methods = sorted({method for _, method in summary.counted})
        if baseline not in methods:
            raise ConfigError("--baseline", baseline, f"choose one of {', '.join(methods)}")
    analyses = Analyses(summary)
    by_class = ByClass(summary)
    left_out = [*analyses.problems, *by_class.problems]
    for problem in left_out:
        logger.warning("left out: %s", problem)
    problems += left_out
    warnings = [*comparability(summary), *studies_without_protection(summary)]
    for warning in warnings:
        logger.warning("%s", warning)
    tables = tables_of(summary, targets, baseline)
    tables |= by_class.tables() | analyses.tables() | analyses.differences(baseline)
    try:
        clear(to)
        write_tables(to / "tables", tables)
        write_whole(to / "tables" / "tidy.csv", frame_as_csv(summary.tidy()))
        drawn = draw([pictures(summary), analyses.pictures()], to / "pictures")
        content = Content(summary, tables, drawn, problems, warnings, analyses.notes, baseline)
        write_whole(to / "index.html", page(content, to).encode())
    except OSError as error:
        raise ConfigError("--to", to, f"must be writable: {system_reason(error)}") from None
    print(markdown(tables[GLANCE]))
    count = f"{len(summary.frame)} run{'' if len(summary.frame) == 1 else 's'}"
    logger.info("\n%s; tables, pictures and %s", count, to / "index.html")


def tables_of(
    summary: Summary, targets: Sequence[float], baseline: str | None
) -> dict[str, pd.DataFrame]:
    """Return every table that is not empty, by title."""
    compared = len(summary.counted) > len({setting for setting, _ in summary.counted})
    tables = {
        GLANCE: summary.glance(),
        "Accuracy": summary.accuracies(),
        "Other metrics": summary.further(),
        "Paired differences": summary.differences(baseline),
        "Rounds to a target": summary.targets(targets) if compared or targets else pd.DataFrame(),
        "Privacy": privacy_table(summary),
        "Runs": summary.runs_as_shown(),
    }
    return {title: table for title, table in tables.items() if len(table)}


def draw(pictures: Iterable[Iterator[Picture]], place: Path) -> dict[str, dict[str, str]]:
    """Draw every picture into a directory; return ``img`` sources by section and title."""
    place.mkdir(exist_ok=True)
    sections: dict[str, dict[str, str]] = {}
    with mpl.rc_context(STYLE):
        every = list(chain.from_iterable(pictures))
        for picture in track(every, "drawing", disable=not sys.stdout.isatty()):
            picture.save(place)
            svg = (place / f"{picture.name}.svg").read_bytes()
            source = "data:image/svg+xml;base64," + base64.b64encode(svg).decode()
            sections.setdefault(picture.section, {})[picture.title] = source
    return sections


def write_tables(place: Path, tables: dict[str, pd.DataFrame]) -> None:
    """Write each table as CSV, Markdown and LaTeX."""
    place.mkdir(parents=True, exist_ok=True)
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
    shown = table.map(lambda value: f"{value:.4f}" if isinstance(value, float) else value)
    return str(shown.to_markdown(index=False, disable_numparse=True))


def clear(to: Path) -> None:
    """Delete the tables and pictures of an earlier report in the same directory."""
    if (to / "index.html").exists() and TITLE in (to / "index.html").read_text(errors="replace"):
        for path in [*(to / "tables").glob("*"), *(to / "pictures").glob("*")]:
            if path.suffix in SUFFIXES:
                path.unlink()


def comparability(summary: Summary) -> list[str]:
    """Return what makes the runs hard to compare: different code, or different images."""
    runs = [run for group in summary.counted.values() for run in group]
    versions: dict[str, list[str]] = {}
    for run in runs:
        for name, version in {"the shared code": run.code, **run.components}.items():
            found = versions.setdefault(name, [])
            found += [version] if version not in found else []
    changed = [f"{name} ({len(found)} versions)" for name, found in versions.items() if found[1:]]
    warnings = [f"The runs were made by different code: {', '.join(changed)}."] if changed else []
    if summary.data_differ:
        warnings.append(
            "Some runs of equal settings were trained on different images; they are not pooled. "
            'The setting "images" names the version of the images (data_version in run.json).'
        )
    return warnings
