"""Conversion between nested settings and the text of Hydra overrides."""

import json
import re
from collections.abc import Mapping
from typing import Any


def quoted(text: str) -> str:
    """Return a string as a quoted Hydra value.

    Hydra ends the value at ``'``, and OmegaConf replaces ``${``. A backslash in front prevents
    both, so a backslash that precedes one of them is doubled.
    """
    plain = re.sub(r"(\\*)\$\{", r"\1\1\\${", text)
    inner = re.sub(r"(\\*)('|$)", lambda m: 2 * m[1] + (r"\'" if m[2] else ""), plain)
    return f"'{inner}'"


def as_typed(value: Any) -> str:
    """Return a value as people type it in an override, such as ``null`` for None."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return str(value)


def flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings by dotted key; a list becomes JSON text, which can be compared."""
    settings: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            settings |= flat(value, f"{prefix}{key}.")
        else:
            settings[prefix + key] = json.dumps(value) if isinstance(value, list) else value
    return settings
