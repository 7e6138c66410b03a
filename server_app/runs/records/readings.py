"""The readings of a final model's accuracy: with which statistics of batch norm it is scored."""

from collections.abc import Mapping
from typing import Any

from server_app.runs.records.tables import RecordError

ALL_IMAGES = "of all images"
LARGEST = 1e18  # of a score; NaN is not below it


def check_readings(record: Mapping[str, Any]) -> None:
    """Check the readings of a ``run.json``.

    Raises:
        RecordError: they are not test scores by name.
    """
    readings = record.get("statistics", {}).get("readings", {})
    if not isinstance(readings, dict) or not all(map(are_scores, readings.values())):
        raise RecordError("run.json's statistics have readings that are no test scores")
    stage = record.get("after", {})
    if stage.get("name") == "batch_norm" and not are_scores(stage.get("after")):
        raise RecordError("run.json's stage after training has no test scores")


def are_scores(value: object) -> bool:
    """Return whether a value maps the names of metrics to numbers."""
    if not isinstance(value, dict):
        return False
    numbers = value.values()
    return all(type(each) in (int, float) and -LARGEST <= each <= LARGEST for each in numbers)


def exact_scores(record: Mapping[str, Any]) -> Mapping[str, float]:
    """Return the test scores with statistics of all images; empty if they were not measured."""
    stage = record.get("after", {})
    if stage.get("name") == "batch_norm":  # an older record
        older: Mapping[str, float] = stage["after"]
        return older
    readings: Mapping[str, Mapping[str, float]] = record.get("statistics", {}).get("readings", {})
    return readings.get(ALL_IMAGES, {})


def statistics_of(config: Mapping[str, Any]) -> str:
    """Return the setting ``model.statistics`` of a run's configuration."""
    return str(config.get("model", {}).get("statistics", "averaged"))
