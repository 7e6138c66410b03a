"""The files of a report: tables, pictures, and one page with all of them."""

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

from server_app.config.override_text import flat
from server_app.report.analyses import Analyses
from server_app.report.by_class.tables import ByClass
from server_app.report.canvas import STYLE, Picture
from server_app.report.pictures import pictures
from server_app.report.statistics import CONFIDENCE
from server_app.report.summary import BASELINE, Summary
from server_app.runs.records.csv_files import frame_as_csv
from server_app.runs.records.reader import Run, read_runs
from server_app.sweep.ledger import SWEEPS, unmet_cells
from task.errors import ConfigError, RunError, system_reason
from task.files import write_whole

GLANCE = "Last round"
SETTINGS = "Settings"
TITLE = "<title>univarfl report</title>"
UNSHOWN = ("published", "watch.mlflow")  # the address may contain a password
SUFFIXES = (".csv", ".md", ".tex", ".png", ".svg")
BAND = "mean over seeds, with a band of one standard deviation"
SPREAD = "After the last round: mean and standard deviation over seeds."
NOTES = {
    GLANCE: "Accuracy of the final global model in %: mean ± standard deviation over seeds.",
    "Accuracy by method": "After the last round: mean, standard deviation, and a dot for each "
    "seed.",
    "Accuracy over the rounds": f"Accuracy of the global model: {BAND}.",
    "Loss over the rounds": f"Training cross-entropy of the participants: {BAND}.",
    "Accuracy over time": "Seconds are those of the rounds as recorded. Runs that shared a machine "
    "took longer.",
    "Recall by class": "After the last round, mean over seeds. Bright is 100 %.",
    "Accuracy against alpha": SPREAD,
    "Accuracy against rho": SPREAD,
    "Accuracy": '%, mean ± standard deviation over seeds. "Last round" is the final model. "Best '
    'by validation" is the accuracy after the round with the best validation accuracy, which is '
    "not the best accuracy. Validation uses the participants' images; with few participants the "
    'choice is noisy. "Published" is the number of a paper for the same settings.',
    "Other metrics": "Last round, test set. Balanced accuracy is the mean recall of the classes. "
    "AUROC and average precision are means over the classes, each class against the rest. "
    "Calibration error is the expected calibration error with 15 bins.",
    "Metrics by class": "Last round, test set, each class against the rest: mean ± standard "
    "deviation over seeds. Sensitivity is the recall of the class. An empty cell is undefined: "
    "there are no images of the class, or none of others.",
    "Confusion matrix": "Last round, test set: images of each true class (row) by the class that "
    "the model gave (column), summed over the seeds.",
    "Paired differences": "Accuracy minus that of the baseline with the same seeds, in percentage "
    f"points: mean and Student's {CONFIDENCE:.0%} interval of the mean. Runs of one seed share the "
    "split, the first weights and the batches. A difference is not significant if its interval "
    "includes 0.",
    "Rounds to a target": "First round at or above the target: mean over the seeds that reached "
    f"it. The default target is the last accuracy of {BASELINE}, or else of the first method.",
    "Runs": "One row for each run. Accuracies are from 0 to 1; seconds are those of the rounds.",
}

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
    for problem in analyses.problems:
        logger.warning("left out: %s", problem)
    by_class = ByClass(summary)
    for problem in by_class.problems:
        logger.warning("left out: %s", problem)
    problems += [*analyses.problems, *by_class.problems]
    for warning in comparability(summary):
        logger.warning("%s", warning)
    tables = tables_of(summary, targets, baseline)
    tables |= by_class.tables() | analyses.tables() | analyses.differences(baseline)
    try:
        clear(to)
        write_tables(to / "tables", tables)
        write_whole(to / "tables" / "tidy.csv", frame_as_csv(summary.tidy()))
        drawn = draw([pictures(summary), analyses.pictures()], to / "pictures")
        content = page(summary, tables, drawn, problems, analyses.notes)
        write_whole(to / "index.html", content.encode())
    except OSError as error:
        raise ConfigError("--to", to, f"must be writable: {system_reason(error)}") from None
    print(markdown(tables[GLANCE]))
    count = f"{len(summary.frame)} run{'' if len(summary.frame) == 1 else 's'}"
    logger.info("\n%s; tables, pictures and %s", count, to / "index.html")


def tables_of(
    summary: Summary, targets: Sequence[float], baseline: str | None
) -> dict[str, pd.DataFrame]:
    """Return every table that is not empty, by title."""
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


def page(
    summary: Summary,
    tables: dict[str, pd.DataFrame],
    sections: dict[str, dict[str, str]],
    problems: Sequence[str],
    notes: Mapping[str, str],
) -> str:
    """Return the page: one HTML file that loads nothing else."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True,
        trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.filters["table"] = html_table
    counted = [run for runs in summary.counted.values() for run in runs]
    return environment.get_template("page.html.j2").render(
        tables=tables, sections=sections, problems=problems, runs=counted, notes={**NOTES, **notes},
        order=[GLANCE, *sections, *(title for title in tables if title != GLANCE), SETTINGS],
        commons=in_common(counted), config=config_of,
        set_aside=summary.set_aside, warnings=comparability(summary),
        judged=sorted({run.split for run in counted}), settings_title=SETTINGS,
        made=f"{datetime.now(tz=UTC):%Y-%m-%d %H:%M} UTC",
    )  # fmt: skip


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


def html_table(table: pd.DataFrame) -> str:
    """Return a table as HTML with rounded numbers."""
    return str(table.to_html(index=False, border=0, float_format="{:.3f}".format, na_rep=""))


def in_common(runs: Sequence[Run]) -> dict[str, object]:
    """Return the settings that all runs share."""
    first, *others = map(shown_settings, runs)
    return {
        key: value
        for key, value in first.items()
        if all(other.get(key, ...) == value for other in others)
    }


def config_of(run: Run, commons: dict[str, object]) -> str:
    """Return the settings that not all runs share, one per line."""
    own = [item for item in shown_settings(run).items() if item[0] not in commons]
    return "\n".join(f"{key}: {json.dumps(value)}" for key, value in own)


def shown_settings(run: Run) -> dict[str, object]:
    """Return a run's configuration without what a page must not show."""
    return {key: value for key, value in flat(run.config).items() if key not in UNSHOWN}
