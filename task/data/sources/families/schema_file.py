"""The file of a schema, in YAML or TOML."""

import dataclasses
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter

from task.data.sources.families.schema import KEY, Schema
from task.errors import ConfigError, DataError, system_reason
from task.machine.regular import MOST, read_start
from task.registry import explained

NAMES = ("schema.yaml", "schema.toml")  # in the directory of a table
EXPECTED = "name a YAML or TOML file that describes the columns, such as schema.yaml"


def schema_in(directory: Path) -> Path | None:
    """Return the file of the schema in the directory of a table; None if there is none."""
    return next((path for name in NAMES if (path := directory / name).exists()), None)


def read_schema(path: Path) -> dict[str, Any]:
    """Return the content of a schema's file, as JSON has it.

    Raises:
        ConfigError: it cannot be read, or is no schema.
    """
    try:
        content = read_start(path, MOST + 1)
    except OSError as error:
        reason = f"cannot be read: {system_reason(error)}; {EXPECTED}"
        raise ConfigError(f"data.{KEY}", path, reason) from None
    if len(content) > MOST:
        raise ConfigError(f"data.{KEY}", path, f"is larger than {MOST} bytes; {EXPECTED}")
    try:
        text = content.decode("utf-8-sig")
        found = tomllib.loads(text) if path.suffix == ".toml" else yaml.safe_load(text)
        found = json.loads(json.dumps(found, allow_nan=False))
    except (ValueError, TypeError, RecursionError, yaml.YAMLError) as error:
        reason = str(error).split("\n")[0]
        raise ConfigError(f"data.{KEY}", path, f"cannot be read: {reason}; {EXPECTED}") from None
    if not isinstance(found, dict):
        raise ConfigError(f"data.{KEY}", path, f"has no columns; {EXPECTED}")
    parsed(found)
    return found


def with_schema(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a data set's settings with the content of the file of its schema.

    Raises:
        ConfigError: there is no file, or it is no schema.
    """
    typed, root = data.get(KEY), data.get("root")
    if not typed and not (root and Path(root).is_dir()):
        raise ConfigError("data.root", root, f"must be a directory with rows and {NAMES[0]}")
    path = Path(typed) if typed else schema_in(Path(root)) if root else None
    if path is None:
        missing = f"no {' or '.join(NAMES)} in data.root; {EXPECTED}: data.schema=FILE"
        raise ConfigError(f"data.{KEY}", typed, missing)
    return {**data, KEY: str(path), "schema_content": read_schema(path)}


def parsed(content: dict[str, Any]) -> Schema:
    """Return the schema of a file's content.

    Raises:
        ConfigError: it is none.
    """
    try:
        with explained():
            return TypeAdapter(Schema).validate_json(json.dumps(content), strict=True)
    except ConfigError as error:
        key = "data" if error.key == KEY else f"data.{KEY}"
        raise error.under(key) from None


def canonical(content: dict[str, Any]) -> str:
    """Return a text that is the same for all contents whose schemas `require_same` takes as equal.

    Raises:
        ConfigError: the content is no schema.
    """
    found = dataclasses.asdict(parsed(content))
    for column in found["columns"]:
        for key in ("low", "high", "mean", "deviation"):
            if column[key] == 0:
                column[key] = 0.0  # not -0.0
    return json.dumps(found, sort_keys=True)


def require_same(path: Path, schema: Schema) -> None:
    """Refuse a site's own schema that is not the experiment's.

    Args:
        path: the site's file.
        schema: the experiment's.

    Raises:
        ConfigError: the file is no schema.
        DataError: they differ.
    """
    own, wanted = dataclasses.asdict(parsed(read_schema(path))), dataclasses.asdict(schema)
    for part in own:
        if own[part] != wanted[part]:
            where = part
            if part == "columns":
                pairs = zip([*own[part], None], [*wanted[part], None], strict=False)
                mine, other = next(pair for pair in pairs if pair[0] != pair[1])
                where = f"column {(mine or other)['name']}"
            raise DataError(
                f"{path.name}: {where} is not as in the experiment's schema; agree on one schema, "
                "and put it into the directory of each site"
            )
