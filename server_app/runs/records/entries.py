"""The entries of a ``run.json`` that readers use, and their check."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from server_app.config.tables import Table
from server_app.runs.records.client_scores import check_spread
from server_app.runs.records.readings import check_readings
from server_app.runs.records.tables import RecordError

STATUSES = ("completed", "failed", "running")
GROUPS = (  # of the configuration, besides the method
    "after", "augmentation", "clock", "data", "federation", "guard", "model", "optim",
    "participation", "partition", "privacy", "runtime", "secure", "strategy", "watch",
)  # fmt: skip
MAPPINGS = (
    "after", "components", "data", "engine", "privacy", "results", "seconds", "statistics",
    "versions",
)  # fmt: skip
WHOLE = {"seed": 0, "rounds": 1, "num_clients": 1}  # the least value of each
MOST = 10**18
NEEDED = ("status", "run_id", "config", "fingerprint", "started")


def check_entries(record: Mapping[str, Any]) -> None:
    """Check the entries of a ``run.json`` that readers use.

    Raises:
        RecordError: an entry is missing, or has a wrong type or value.
    """
    if missing := [name for name in NEEDED if name not in record]:
        raise RecordError(f"run.json lacks {', '.join(missing)}")
    if not is_unicode(record):
        raise RecordError("run.json has text that is not Unicode")
    if record["status"] not in STATUSES:
        raise RecordError(f"run.json has status {record['status']!r}")
    check_config(record["config"])
    for name in MAPPINGS:
        if not isinstance(record.get(name, {}), dict):
            raise RecordError(f"run.json's {name} is not a mapping")
    for key in ("fingerprint", "started", "code"):
        if not isinstance(record.get(key, ""), str):
            raise RecordError(f"run.json's {key} is not text")
    if not isinstance(record.get("data_version"), str | None):
        raise RecordError("run.json's data_version is neither text nor null")
    if not all(isinstance(value, str) for value in record.get("components", {}).values()):
        raise RecordError("run.json's components are not a mapping to text")
    check_readings(record)
    check_spread(record)


def check_config(config: object) -> None:
    """Check a run's configuration.

    Raises:
        RecordError: a value that readers use has a wrong type, or is out of its range.
    """
    method = config.get("method") if isinstance(config, dict) else None
    if not isinstance(config, dict) or not isinstance(method, dict):
        raise RecordError("run.json has no valid config")
    if not isinstance(method.get("name"), str):
        raise RecordError("run.json has no valid config")
    for key, least in WHOLE.items():
        if type(config.get(key)) is not int or not least <= config[key] <= MOST:
            raise RecordError(f"run.json's config has no {key}")
    if type(config.get("rho")) not in (int, float) or not 0 < config["rho"] <= 1:
        raise RecordError("run.json's config has no rho")
    for name in GROUPS:
        if not isinstance(config.get(name, {}), dict):
            raise RecordError(f"run.json's {name} is not a mapping")
    try:
        tables_of(config)
    except ValidationError:
        raise RecordError("run.json's config has published numbers of another form") from None


def tables_of(config: Mapping[str, Any]) -> list[Table]:
    """Return the published tables in a run's configuration.

    Raises:
        ValidationError: they have another form.
    """
    return TypeAdapter(list[Table]).validate_python(config.get("published", []))


def is_unicode(record: object) -> bool:
    """Return whether all text can be written; JSON can hold halves of characters."""
    try:
        json.dumps(record, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
