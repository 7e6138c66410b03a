"""The page of a report: one HTML file with styles, scripts and numbers in it."""

import base64
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import jinja2
import numpy as np
import pandas as pd

from server_app.config.override_text import flat
from server_app.report import after_training
from server_app.report.breakdown.by_client import TITLE as AT_CLIENTS
from server_app.report.charts.as_json import sections_of
from server_app.report.charts.base import Chart
from server_app.report.readings import READINGS
from server_app.report.spent import charts as spent_charts
from server_app.report.spent import participation, targets
from server_app.report.statistics import CONFIDENCE
from server_app.report.summary import BASELINE, Summary
from server_app.runs.records.metrics import METRICS
from server_app.runs.records.reader import Run
from server_app.runs.records.record import RUN_JSON
from server_app.runs.records.tables import LEAST_IMAGES

WEB = Path(__file__).parent.parent / "web"
STYLES = ("uplot.css", "pages.css")
SCRIPTS = (
    "theme.js", "uplot.js", "tables.js", "markers.js", "curves.js", "bars.js", "report.js"
)  # fmt: skip
GLANCE = "Last round"
SETTINGS = "Settings"
UNSHOWN = ("published", "watch.mlflow")  # the address may contain a password
BAND = "mean over seeds, with a band of one standard deviation"
SPREAD = "After the last round: mean and standard deviation over seeds."
NOTES = {
    GLANCE: "Accuracy after the last round in %: mean ± standard deviation over seeds.",
    "Accuracy by method": "After the last round: mean, standard deviation, and a dot for each "
    "seed.",
    "Accuracy over the rounds": f"Accuracy of the global model: {BAND}.",
    "Loss over the rounds": f"Training cross-entropy of the participants: {BAND}.",
    "Accuracy over time": "Seconds are those of the rounds as recorded. Runs that shared a machine "
    "took longer.",
    "Recall by class": "After the last round, mean over seeds, in %.",
    "Accuracy against alpha": SPREAD,
    "Accuracy against rho": SPREAD,
    "Accuracy": '%, mean ± standard deviation over seeds. "Last round" is before a stage that '
    'follows. "Best by validation" is the accuracy after the round with the best validation '
    "accuracy, which is not the best accuracy. Validation uses the participants' images; with few "
    'participants the choice is noisy. "Published" is the number of a paper for the same settings.',
    "Other metrics": "Last round, test set. Balanced accuracy is the mean recall of the classes. "
    "AUROC and average precision are means over the classes, each class against the rest. "
    "Calibration error is the expected calibration error with 15 bins.",
    "Metrics by class": "Final model, test set, each class against the rest: mean ± standard "
    "deviation over seeds. Sensitivity is the recall of the class. An empty cell is undefined: "
    "there are no images of the class, or none of others.",
    "Confusion matrix": "Final model, test set: images of each true class (row) by the class that "
    "the model gave (column), summed over the seeds.",
    AT_CLIENTS: "The final model at each client, on images that the client held out and on which "
    f"nobody trained. Clients with fewer than {LEAST_IMAGES} of them do not count. Every client "
    "counts the same. Of more than 1,000 clients, a sample is scored. The worst tenth is the mean "
    "of the worst 10 % of the clients, at least one. "
    "In the table: mean ± standard deviation over seeds, and paired differences in percentage "
    f"points with Student's {CONFIDENCE:.0%} interval.",
    "Paired differences": "Accuracy minus that of the baseline with the same seeds, in percentage "
    f"points: mean and Student's {CONFIDENCE:.0%} interval of the mean. Runs of one seed share the "
    "split, the first weights and the batches. A difference is not significant if its interval "
    "includes 0.",
    "Rounds to a target": "First round at or above the target: mean over the seeds that reached "
    f"it. The default target is the last accuracy of {BASELINE}, or else of the first method.",
    targets.TITLE: targets.NOTE,
    participation.TITLE: participation.NOTE,
    **spent_charts.NOTES,
    after_training.TITLE: after_training.NOTE,
    "Privacy": "Epsilon bounds how much one person's data can change what is published; smaller is "
    "better, and above 10 it promises little. Each run.json says what epsilon does not cover.",
    "Runs": "One row for each run, with a link to its record. Seconds are those of the rounds.",
}
RUNS = "Runs"
RUN = "run"  # the column with the name of a run's directory


@dataclass(frozen=True)
class Content:
    """What a page shows.

    Attributes:
        summary: the runs.
        tables: by title.
        charts: what the page draws.
        problems: what was left out.
        warnings: what makes the runs hard to compare.
        notes: explanations by title, besides `NOTES`.
        headlines: the result in words.
    """

    summary: Summary
    tables: Mapping[str, pd.DataFrame]
    charts: Sequence[Chart]
    problems: Sequence[str]
    warnings: Sequence[str]
    notes: Mapping[str, str]
    headlines: Sequence[str]


def page(content: Content, to: Path) -> str:
    """Return the page: one HTML file that loads nothing else.

    Args:
        content: what it shows.
        to: the directory of the page, for links to the records.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True,
        trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    summary = content.summary
    counted = [run for runs in summary.counted.values() for run in runs]
    charts = sections_of(content.charts)
    tables = {title: shown_table(table) for title, table in content.tables.items()}
    styles, scripts = ([(WEB / name).read_text() for name in names] for names in (STYLES, SCRIPTS))
    return environment.get_template("page.html.j2").render(
        tables=tables, charts=charts, problems=content.problems, runs=counted,
        notes={**NOTES, **content.notes}, headlines=content.headlines,
        order=list(dict.fromkeys([GLANCE, *charts, *tables, SETTINGS])),
        links={run.directory.name: link_to(run, to) for run in counted},
        run_column=RUN, runs_title=RUNS,
        commons=in_common(counted), config=config_of,
        set_aside=summary.set_aside, warnings=content.warnings,
        judged=sorted({run.split for run in counted}), settings_title=SETTINGS,
        styles=styles, scripts=scripts, policy=policy(styles, scripts),
        made=f"{datetime.now(tz=UTC):%Y-%m-%d %H:%M} UTC",
    )  # fmt: skip


def policy(styles: Sequence[str], scripts: Sequence[str]) -> str:
    """Return the content security policy: only these styles and scripts, and nothing is loaded."""
    return (
        f"default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src {hashes(styles)}; script-src {hashes(scripts)}"
    )


def hashes(texts: Sequence[str]) -> str:
    """Return the sources that allow these texts alone."""
    found = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts]
    return " ".join(f"'sha256-{digest}'" for digest in found)


def link_to(run: Run, to: Path) -> str:
    """Return the address of a run's record, relative to the page."""
    path = os.path.relpath(run.directory.absolute() / RUN_JSON, to.absolute())
    return quote(os.fsencode(path))


def shown_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table as text: accuracies in %, rounded numbers, and no empty column."""
    shown = {}
    for name, column in table.items():
        if column.dtype != float:
            cells = column.map(lambda value: "" if value is None else str(value))
        else:
            percent = name in READINGS or (name in METRICS and METRICS[str(name)].percent)
            cells = column.map(lambda value, percent=percent: rounded(value, percent))
        heading = METRICS[str(name)].heading if name in METRICS else str(name)
        heading += ", %" if name in READINGS and column.dtype == float else ""
        if (cells != "").any():
            shown[heading] = cells
    return pd.DataFrame(shown)


def rounded(value: float, percent: bool) -> str:
    """Return a number as short text; nothing for one that is missing."""
    if np.isnan(value):
        return ""
    return f"{100 * value:.1f}" if percent else f"{value:.3f}"


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
