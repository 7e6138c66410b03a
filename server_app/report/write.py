"""A report on disk: tables, pictures, and the page that holds them all."""

import base64
import io
import json
import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import jinja2
import pandas as pd

from server_app.flattening import flat
from server_app.report.pictures import Picture, pictures
from server_app.report.records import Collection, Run, read_runs
from server_app.report.summary import BASELINE, CONFIDENCE, Summary
from server_app.sweep.ledger import SWEEPS, unmet_cells
from task.errors import ConfigError, RunError, system_reason

logger = logging.getLogger("univarfl")


def report(
    directory: Path, to: Path, targets: Sequence[float] = (), baseline: str | None = None
) -> None:
    """Write a report of the runs in a directory.

    Raises:
        ConfigError: there are no runs, the baseline is not among their methods, or the report
            cannot be written there.
        RunError: there are records, and not one completed run among them.
    """
    found = read_runs(directory)
    problems = [*found.problems, *unmet_cells(directory / SWEEPS)]
    for problem in problems:
        logger.warning("left out: %s", problem)
    if not found.runs:
        raise RunError(f"{directory} holds no completed run")
    summary = Summary(found.runs)
    if baseline is not None:
        methods = sorted({method for _, method in summary.counted})
        if baseline not in methods:
            raise ConfigError("--baseline", baseline, f"choose one of {', '.join(methods)}")
    tables = tables_of(summary, targets, baseline)
    drawn = list(pictures(summary))
    try:
        write_tables(to / "tables", tables)
        (to / "pictures").mkdir(exist_ok=True)
        for picture in drawn:
            picture.save(to / "pictures")
        (to / "index.html").write_text(page(found, summary, tables, drawn, problems))
    except OSError as error:
        raise ConfigError("--to", to, f"must be writable: {system_reason(error)}") from None
    print(tables["Accuracy"].to_markdown(index=False))
    logger.info("\n%d runs; tables, pictures and %s", len(summary.frame), to / "index.html")


def tables_of(
    summary: Summary, targets: Sequence[float], baseline: str | None
) -> dict[str, pd.DataFrame]:
    """Every table that says something, by its title."""
    tables = {
        "Accuracy": summary.accuracies(),
        "Other metrics": summary.further(),
        "Paired differences": summary.differences(baseline),
        "Rounds to a target": summary.targets(targets),
        "Runs": summary.frame.drop(columns="setting"),
    }
    return {title: table for title, table in tables.items() if len(table)}


def write_tables(place: Path, tables: dict[str, pd.DataFrame]) -> None:
    """Each table as CSV, Markdown and LaTeX."""
    place.mkdir(parents=True, exist_ok=True)
    for title, table in tables.items():
        stem = title.lower().replace(" ", "_")
        table.to_csv(place / f"{stem}.csv", index=False)
        (place / f"{stem}.md").write_text(table.to_markdown(index=False) + "\n")
        style = table.style.hide(axis="index").format(escape="latex", precision=3)
        (place / f"{stem}.tex").write_text(style.to_latex(hrules=True).replace("±", r"$\pm$"))


def page(
    found: Collection,
    summary: Summary,
    tables: dict[str, pd.DataFrame],
    drawn: Sequence[Picture],
    problems: Sequence[str],
) -> str:
    """The page: one file, nothing fetched from anywhere."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True,
        trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.filters["table"] = html_table
    sections: dict[str, list[tuple[Picture, str]]] = {}
    for picture in drawn:
        sections.setdefault(picture.section, []).append((picture, as_source(picture)))
    counted = [run for runs in summary.counted.values() for run in runs]
    return environment.get_template("page.html.j2").render(
        tables=tables, sections=sections, problems=problems, runs=counted,
        commons=in_common(counted), config=config_of, baseline=BASELINE, confidence=CONFIDENCE,
        set_aside=summary.set_aside, codes=sorted({run.record["fingerprint"] for run in counted}),
        made=f"{datetime.now(tz=UTC):%Y-%m-%d %H:%M} UTC",
    )  # fmt: skip


def html_table(table: pd.DataFrame) -> str:
    """A table as HTML, numbers rounded."""
    return str(table.to_html(index=False, border=0, float_format="{:.3f}".format, na_rep=""))


def as_source(picture: Picture) -> str:
    """A picture as the source of an ``img``."""
    buffer = io.BytesIO()
    picture.figure.savefig(buffer, format="svg", metadata={"Date": None})
    return "data:image/svg+xml;base64," + base64.b64encode(buffer.getvalue()).decode()


def in_common(runs: Sequence[Run]) -> dict[str, object]:
    """The settings that all runs have in common."""
    flats = [flat(run.config) for run in runs]
    return {
        key: value
        for key, value in flats[0].items()
        if key != "published" and all(other.get(key, ...) == value for other in flats)
    }


def config_of(run: Run, commons: dict[str, object]) -> str:
    """What a run's configuration has beside the common settings, a line each."""
    own = {key: value for key, value in flat(run.config).items() if key not in commons}
    own.pop("published", None)
    return "\n".join(f"{key}: {json.dumps(value)}" for key, value in own.items())
