"""Measuring runs, and the tables and pictures that come of it."""

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
import pandas as pd
from pandas.api.types import is_numeric_dtype
from rich.console import Console
from rich.progress import track
from safetensors import SafetensorError
from scipy.sparse.linalg import ArpackError

from server_app.analysis.base import Measure
from server_app.analysis.cost import ClientCost
from server_app.analysis.curvature import Curvature
from server_app.analysis.drift import ClientDrift
from server_app.analysis.features import Features
from server_app.analysis.landscape import Landscape
from server_app.analysis.singular_values import SingularValues
from server_app.analysis.spread import Spread
from server_app.analysis.subject import Subject
from server_app.report.canvas import STYLE, Picture, slug
from server_app.report.records import RecordError, Run, read_runs
from task.causes import explained
from task.errors import ConfigError, DataError, DeviceError, RunError, system_reason
from task.files import write_whole

MEASURES: tuple[Measure, ...] = (
    SingularValues(), Spread(), ClientDrift(), Curvature(), Landscape(), Features(), ClientCost(),
)  # fmt: skip
DIRECTORY, SAMPLE = "analysis", "most images"
FAILURES = (
    DataError, DeviceError, OSError, SafetensorError,
    ArpackError, ValueError,  # as where numbers are not finite
)  # fmt: skip

logger = logging.getLogger("univarfl")


def analyse(places: Sequence[Path], only: Sequence[str], images: int) -> None:
    """Measure runs, and write what is found into each one's directory.

    Args:
        places: directories of runs, or of single ones.
        only: the names of the measures; none for all.
        images: see `Subject`.

    Raises:
        ConfigError: there is no such measure, or there are no runs.
        RunError: a place holds no completed run, and nothing was measured; or something could
            not be measured, and all else was.
    """
    names = [measure.name for measure in MEASURES]
    for name in only:
        if name not in names:
            raise ConfigError("--only", name, f"choose from {', '.join(names)}")
    wanted = [measure for measure in MEASURES if not only or measure.name in only]
    runs: list[Run] = []
    for place in places:
        found = read_runs(place)
        for problem in found.problems:
            logger.warning("left out: %s", problem)
        if not found.runs:
            raise RunError(f"{place} holds no completed run")
        runs += found.runs
    failed = sum(not measured(wanted, Subject(run, images)) for run in runs)
    if failed:
        raise RunError(f"{failed} run{'' if failed == 1 else 's'} could not be measured wholly")


def measured(wanted: Sequence[Measure], subject: Subject) -> bool:
    """Measure a run, and say what was found or why not; whether everything could be measured."""
    name = subject.run.directory.name
    logger.info("%s", name)
    quiet, console = not sys.stderr.isatty(), Console(stderr=True)
    failures: set[str] = set()
    for measure in track(wanted, name[:40], console=console, disable=quiet):
        try:
            needed = measure.missing(subject)
            said = f"left out: it needs {needed}" if needed else written(measure, subject)
        except FAILURES as error:
            reason = explained(error)
            said = f"failed: {'for the same reason' if reason in failures else reason}"
            failures.add(reason)
        logger.info("  %s: %s", measure.name, said)
    return not failures


def written(measure: Measure, subject: Subject) -> str:
    """Measure a run, write its table and pictures; what was found, or where it is.

    Raises:
        ConfigError: they cannot be written.
    """
    table = measure.measure(subject).assign(**{SAMPLE: subject.images})
    place = subject.run.directory / DIRECTORY
    label = subject.run.config["method"]["name"]
    tables = {label: table.assign(run=subject.run.directory.name)}
    try:
        place.mkdir(exist_ok=True)
        write_whole(place / f"{measure.name}.csv", table.to_csv(index=False).encode())
        for picture in pictures_of(measure, "", tables):
            picture.save(place)
    except OSError as error:
        raise ConfigError("analyse", place, f"must be writable: {system_reason(error)}") from None
    summary = measure.summarise(tables)
    if len(summary):
        found = summary.iloc[0].drop("method").to_dict()
        return ", ".join(f"{key} {value}" for key, value in found.items())
    return f"{place / measure.name}.csv"


def pictures_of(
    measure: Measure, heading: str, tables: Mapping[str, pd.DataFrame]
) -> Iterator[Picture]:
    """A measure's pictures of several runs in common, or of each label's first run.

    To be saved, and made, one by one: they are drawn in the report's style.
    """
    groups: dict[str, Mapping[str, pd.DataFrame]] = {heading: tables}
    if not measure.together:
        groups = {
            ", ".join(filter(None, (label, heading))): {label: first_run(table)}
            for label, table in tables.items()
        }
    for title, group in groups.items():
        with mpl.rc_context(STYLE):
            for drawing in measure.draw(group):
                whole = ": ".join(filter(None, (title, drawing.title)))
                name = slug(
                    "-".join(filter(None, (measure.name, drawing.title, heading and title)))
                )
                yield Picture(measure.title, whole, name, drawing.figure)


def first_run(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the first of several runs."""
    return table[table["run"] == table["run"].iloc[0]]


def read_table(measure: Measure, run: Run) -> pd.DataFrame | None:
    """What a measure found of a run; None if it was not looked at.

    Raises:
        RecordError: the table is not as it was written.
    """
    path = run.directory / DIRECTORY / f"{measure.name}.csv"
    if not path.exists():
        return None
    columns = (*measure.columns, SAMPLE)
    numbers = [column for column in columns if column not in measure.words]
    try:
        table = pd.read_csv(path, keep_default_na=False, na_values=[""])  # a class may be called NA
        whole = tuple(table.columns) == columns and len(table)
        wrong = not whole or any(not is_numeric_dtype(table[column]) for column in numbers)
    except (OSError, ValueError):
        wrong = True
    if wrong:
        again = f"univarfl analyse {run.directory} --only {measure.name}"
        raise RecordError(f"{DIRECTORY}/{path.name} is not as it was written; again: {again}")
    return table.assign(run=run.directory.name)
