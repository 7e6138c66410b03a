"""A report on disk: tables, pictures, and the page that holds them all."""

import base64
import json
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

import jinja2
import matplotlib as mpl
import pandas as pd
from rich.progress import track

from server_app.flattening import flat
from server_app.report.analyses import Analyses
from server_app.report.canvas import STYLE, Picture
from server_app.report.pictures import pictures
from server_app.report.records import Run, read_runs
from server_app.report.summary import BASELINE, CONFIDENCE, Summary
from server_app.sweep.ledger import SWEEPS, unmet_cells
from task.errors import ConfigError, RunError, system_reason

GLANCE = "Last round"
TITLE = "<title>univarfl report</title>"
UNSHOWN = ("published", "watch.mlflow")  # an address may hold a password
SUFFIXES = (".csv", ".md", ".tex", ".png", ".svg")
BAND = "mean over seeds, and a band of one standard deviation"
SPREAD = "After the last round: mean, and one standard deviation over seeds."
NOTES = {
    GLANCE: "Accuracy of the final global model, %: mean ± standard deviation over seeds.",
    "Accuracy by method": "After the last round: mean, standard deviation, and each seed as a dot.",
    "Accuracy over the rounds": f"Of the global model: {BAND}.",
    "Loss over the rounds": f"The participants' cross-entropy while they train: {BAND}.",
    "Accuracy over time": "The seconds are those of the rounds as recorded, so runs that shared a "
    "machine count its being shared.",
    "Recall by class": "After the last round, mean over seeds: bright is 100 %.",
    "Accuracy against alpha": SPREAD,
    "Accuracy against rho": SPREAD,
    "Accuracy": '%, mean ± standard deviation over seeds. "Last round" is the final model; "best '
    'by validation" is the accuracy after the round with the best validation accuracy, not the '
    "best accuracy. Validation is of the clients that took part, so with few of them the choice "
    "is a matter of chance. Published numbers stand beside runs of their settings.",
    "Other metrics": "Of the last round, on the test set. Balanced accuracy is the mean recall of "
    "the classes; the calibration error is the expected one, of 15 bins.",
    "Paired differences": "Accuracy minus the baseline's on the same seeds, in points: mean, and "
    f"Student's {CONFIDENCE:.0%} interval of the mean. A seed decides split, first weights and "
    "batches, so pairs share all three.",
    "Rounds to a target": "The first round at or above the target: mean over the seeds that "
    f"reached it. Unless asked for, the target is what {BASELINE} (else the first method) ends at.",
    "Runs": "A row a run. Accuracies are shares of 1; seconds are those of the rounds.",
}

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
    analyses = Analyses(summary)
    for problem in analyses.problems:
        logger.warning("left out: %s", problem)
    problems += analyses.problems
    tables = tables_of(summary, targets, baseline)
    tables |= analyses.tables() | analyses.differences(baseline)
    try:
        clear(to)
        write_tables(to / "tables", tables)
        summary.tidy().to_csv(to / "tables" / "tidy.csv", index=False)
        drawn = draw([pictures(summary), analyses.pictures()], to / "pictures")
        (to / "index.html").write_text(page(summary, tables, drawn, problems, analyses.notes))
    except OSError as error:
        raise ConfigError("--to", to, f"must be writable: {system_reason(error)}") from None
    print(markdown(tables[GLANCE]))
    count = f"{len(summary.frame)} run{'' if len(summary.frame) == 1 else 's'}"
    logger.info("\n%s; tables, pictures and %s", count, to / "index.html")


def tables_of(
    summary: Summary, targets: Sequence[float], baseline: str | None
) -> dict[str, pd.DataFrame]:
    """Every table that says something, by its title."""
    tables = {
        GLANCE: summary.glance(),
        "Accuracy": summary.accuracies(),
        "Other metrics": summary.further(),
        "Paired differences": summary.differences(baseline),
        "Rounds to a target": summary.targets(targets),
        "Runs": summary.runs_as_shown(),
    }
    return {title: table for title, table in tables.items() if len(table)}


def draw(pictures: Iterable[Iterator[Picture]], place: Path) -> dict[str, dict[str, str]]:
    """Draw every picture into a directory; by section and title, the source of an ``img``."""
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
    """Each table as CSV, Markdown and LaTeX."""
    place.mkdir(parents=True, exist_ok=True)
    for title, table in tables.items():
        stem = title.lower().replace(" ", "_")
        table.to_csv(place / f"{stem}.csv", index=False)
        (place / f"{stem}.md").write_text(markdown(table) + "\n")
        style = table.style.hide(axis="index").format(escape="latex", precision=3)
        style = style.format_index(escape="latex", axis=1)
        (place / f"{stem}.tex").write_text(style.to_latex(hrules=True).replace("±", r"$\pm$"))


def markdown(table: pd.DataFrame) -> str:
    """A table as Markdown, its digits as they are."""
    shown = table.map(lambda value: f"{value:.4f}" if isinstance(value, float) else value)
    return str(shown.to_markdown(index=False, disable_numparse=True))


def clear(to: Path) -> None:
    """Take away the tables and pictures of a report that was written here before."""
    if (to / "index.html").exists() and TITLE in (to / "index.html").read_text(errors="replace"):
        for path in [*(to / "tables").glob("*"), *(to / "pictures").glob("*")]:
            if path.suffix in SUFFIXES:
                path.unlink()


def page(
    summary: Summary,
    tables: dict[str, pd.DataFrame],
    sections: dict[str, dict[str, str]],
    problems: Sequence[str],
    notes: Mapping[str, str],
) -> str:
    """The page: one file, nothing fetched from anywhere."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True,
        trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.filters["table"] = html_table
    counted = [run for runs in summary.counted.values() for run in runs]
    return environment.get_template("page.html.j2").render(
        tables=tables, sections=sections, problems=problems, runs=counted, notes={**NOTES, **notes},
        order=[GLANCE, *sections, *(title for title in tables if title != GLANCE), "Settings"],
        commons=in_common(counted), config=config_of,
        set_aside=summary.set_aside, codes=sorted({run.code for run in counted}),
        judged=sorted({run.split for run in counted}),
        made=f"{datetime.now(tz=UTC):%Y-%m-%d %H:%M} UTC",
    )  # fmt: skip


def html_table(table: pd.DataFrame) -> str:
    """A table as HTML, numbers rounded."""
    return str(table.to_html(index=False, border=0, float_format="{:.3f}".format, na_rep=""))


def in_common(runs: Sequence[Run]) -> dict[str, object]:
    """The settings that all runs have in common."""
    first, *others = map(shown_settings, runs)
    return {
        key: value
        for key, value in first.items()
        if all(other.get(key, ...) == value for other in others)
    }


def config_of(run: Run, commons: dict[str, object]) -> str:
    """What a run's configuration has beside the common settings, a line each."""
    own = [item for item in shown_settings(run).items() if item[0] not in commons]
    return "\n".join(f"{key}: {json.dumps(value)}" for key, value in own)


def shown_settings(run: Run) -> dict[str, object]:
    """A run's configuration, as far as a page may tell it."""
    return {key: value for key, value in flat(run.config).items() if key not in UNSHOWN}
