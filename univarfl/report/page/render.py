"""The page of a report: one HTML file with styles, scripts and numbers in it."""

import base64
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

import jinja2
import numpy as np
import pandas as pd

from server_app.config.override_text import flat
from server_app.runs.records.metrics import METRICS
from server_app.runs.records.record import RUN_JSON
from univarfl.records.reader import Run
from univarfl.report.charts.as_json import charts_as_json
from univarfl.report.readings import READINGS
from univarfl.report.section import Section, filled_tables
from univarfl.report.summary import GLANCE, RUNS, Summary

WEB = Path(__file__).parent.parent / "web"
STYLES = ("uplot.css", "pages.css")
SCRIPTS = (
    "theme.js", "uplot.js", "tables.js", "markers.js", "curves.js", "bars.js", "report.js"
)  # fmt: skip
SETTINGS = "Settings"
UNSHOWN = ("published", "watch.mlflow")  # the address may contain a password
RUN = "run"  # the column with the name of a run's directory


@dataclass(frozen=True)
class Content:
    """What a page shows.

    Attributes:
        summary: the runs.
        sections: what it shows of them. `GLANCE` comes first, and charts before tables.
        problems: what was left out.
        warnings: what makes the runs hard to compare.
        headlines: the result in words.
    """

    summary: Summary
    sections: Sequence[Section]
    problems: Sequence[str]
    warnings: Sequence[str]
    headlines: Sequence[str] = ()

    @cached_property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Every table that is not empty, by title."""
        return filled_tables(self.sections)

    @cached_property
    def shown(self) -> list[Section]:
        """The sections that are not empty, in the order of the page."""
        found = [each for each in self.sections if each.charts or len(each.table)]
        return sorted(found, key=lambda each: (each.title != GLANCE, not each.charts))


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
    styles, scripts = ([(WEB / name).read_text() for name in names] for names in (STYLES, SCRIPTS))
    return environment.get_template("page.html.j2").render(
        sections=[*content.shown, Section(SETTINGS)], charts=charts_as_json(content.shown),
        tables={title: shown_table(table) for title, table in content.tables.items()},
        problems=content.problems, runs=counted, headlines=content.headlines,
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
