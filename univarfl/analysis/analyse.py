"""Measure runs, and write and read the tables and pictures of the measures."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pandas as pd
import torch
from pandas.api.types import is_numeric_dtype
from safetensors import SafetensorError
from scipy.sparse.linalg import ArpackError

from server_app.runs.records.tables import ANALYSIS, RecordError
from task.error_messages import describe_error, is_gpu_shortage
from task.errors import ConfigError, DataError, DeviceError, RunError, system_reason
from task.machine.files import write_whole
from univarfl.analysis.analysed_run import AnalysedRun
from univarfl.analysis.base import Measure
from univarfl.analysis.class_features import ClassFeatures
from univarfl.analysis.cost import ClientCost
from univarfl.analysis.curvature import Curvature
from univarfl.analysis.drift import ClientDrift
from univarfl.analysis.features import Features
from univarfl.analysis.landscape import Landscape
from univarfl.analysis.release_curvature import ReleaseCurvature
from univarfl.analysis.singular_values import SingularValues
from univarfl.analysis.spread import Spread
from univarfl.analysis.training_loss import TrainingLoss
from univarfl.records.csv_tables import frame_as_csv, read_frame
from univarfl.records.labels import label_of
from univarfl.records.output_directory import make_output_directory
from univarfl.records.reader import Run, read_runs
from univarfl.report.charts.base import Chart, slug
from univarfl.terminal.steps import Begin, steps_on_terminal

MEASURES: tuple[Measure, ...] = (
    SingularValues(), Spread(), ClientDrift(), TrainingLoss(), Curvature(), ReleaseCurvature(),
    Landscape(), Features(), ClassFeatures(), ClientCost(),
)  # fmt: skip
DIRECTORY, SAMPLE = ANALYSIS, "most images"
FAILURES = (
    DataError, DeviceError, OSError, SafetensorError,
    ArpackError, ValueError,  # for instance if numbers are not finite
)  # fmt: skip

logger = logging.getLogger("univarfl")


def analyse(
    places: Sequence[Path], only: Sequence[str], images: int, class_name: str | None = None
) -> None:
    """Measure runs, and write the tables and pictures into each run's directory.

    Args:
        places: directories of single runs, or of several.
        only: names of measures; empty for all.
        images: the number of images per sample; see `AnalysedRun`.
        class_name: the class of measures that show one class; None for the first.

    Raises:
        ConfigError: a measure does not exist, or a place is not a directory of runs.
        RunError: a place has no completed run, in which case nothing is measured; or a measure
            failed, in which case all others were run.
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
            raise RunError(f"{place} has no completed run")
        for run in (run for run in found.runs if run.personal):
            logger.warning("left out: %s: its clients keep a part of the model", run.directory.name)
        for run in (run for run in found.runs if run.multilabel):
            logger.warning("left out: %s: its images have several labels", run.directory.name)
        runs += [run for run in found.runs if not run.personal and not run.multilabel]
    with steps_on_terminal(len(runs) * len(wanted)) as begin:
        every = (AnalysedRun(run, images, class_name) for run in runs)
        failed = sum(not measure_run(wanted, analysed, begin) for analysed in every)
    if failed:
        raise RunError(f"some measures failed for {failed} run{'' if failed == 1 else 's'}")


def measure_run(wanted: Sequence[Measure], analysed: AnalysedRun, begin: Begin) -> bool:
    """Run measures on one run and log their results; return False if one of them failed.

    A measure whose requirements the run does not meet is left out, which is not a failure.

    Args:
        wanted: the measures.
        analysed: the run.
        begin: is called with the name of each measure before it is computed.
    """
    name = analysed.run.directory.name
    logger.info("%s", name)
    failures: set[str] = set()
    for measure in wanted:
        begin(f"{measure.name} of {name}")
        try:
            unmet = measure.unmet_requirement(analysed)
            result = f"left out: it needs {unmet}" if unmet else run_measure(measure, analysed)
        except (*FAILURES, RuntimeError) as error:
            if is_gpu_shortage(error):
                torch.cuda.empty_cache()
            elif not isinstance(error, FAILURES):
                raise
            reason = describe_error(error)
            result = f"failed: {'for the same reason' if reason in failures else reason}"
            failures.add(reason)
        logger.info("  %s: %s", measure.name, result)
    return not failures


def run_measure(measure: Measure, analysed: AnalysedRun) -> str:
    """Run one measure and write its table and pictures.

    Returns:
        The measure's values for this run, or the path of its table if it has none.

    Raises:
        ConfigError: the files cannot be written.
    """
    table = measure.measure(analysed).assign(**{SAMPLE: analysed.images})
    place = analysed.run.directory / DIRECTORY
    from univarfl.report.charts.draw import save  # noqa: PLC0415  (imports Matplotlib)

    label = label_of("method", analysed.run.config["method"]["name"])
    tables = {label: table.assign(run=analysed.run.directory.name)}
    try:
        make_output_directory(place)
        write_whole(place / f"{measure.name}.csv", frame_as_csv(table))
        for chart in charts_of(measure, "", tables):
            save(chart, place)
    except OSError as error:
        raise ConfigError("analyse", place, f"must be writable: {system_reason(error)}") from None
    summary = measure.summarise(tables)
    if len(summary):
        values = summary.iloc[0].drop("method").to_dict()
        return ", ".join(f"{key} {value}" for key, value in values.items())
    return f"{place / measure.name}.csv"


def charts_of(
    measure: Measure, heading: str, tables: Mapping[str, pd.DataFrame]
) -> Iterator[Chart]:
    """Yield a measure's charts: common ones for all labels, or one set for each label's first run.

    Args:
        measure: the measure.
        heading: what the tables have in common, for the titles; may be empty.
        tables: by label, the rows of one or more runs.
    """
    groups: dict[str, Mapping[str, pd.DataFrame]] = {heading: tables}
    if not measure.compares_runs:
        groups = {
            ", ".join(filter(None, (label, heading))): {label: rows_of_first_run(table)}
            for label, table in tables.items()
        }
    for title, group in groups.items():
        for drawing in measure.draw(group):
            full_title = ": ".join(filter(None, (title, drawing.title)))
            of = title if heading or len(groups) > 1 else ""
            name = slug("-".join(filter(None, (measure.name, drawing.title, of))))
            yield Chart(measure.title, full_title, name, drawing.figure)


def rows_of_first_run(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the first run in a table of several runs."""
    return table[table["run"] == table["run"].iloc[0]]


def read_table(measure: Measure, run: Run) -> pd.DataFrame | None:
    """Return a measure's table of a run, or None if the run was not measured.

    Raises:
        RecordError: the table is damaged.
    """
    path = run.directory / DIRECTORY / f"{measure.name}.csv"
    if not path.exists():
        return None
    columns = (*measure.columns, SAMPLE)
    numbers = [column for column in columns if column not in measure.text_columns]
    try:
        table = read_frame(path)
        complete = tuple(table.columns) == columns and len(table)
        damaged = not complete or any(not is_numeric_dtype(table[column]) for column in numbers)
    except (OSError, ValueError):
        damaged = True
    if damaged:
        command = f"univarfl analyse {run.directory} --only {measure.name}"
        raise RecordError(
            f"{DIRECTORY}/{path.name} is damaged or of another version; "
            f"write it again with: {command}"
        )
    return table.assign(run=run.directory.name)
