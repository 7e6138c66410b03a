"""Configurations by dotted keys."""

import json
from collections.abc import Mapping
from typing import Any


def flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A nested configuration by dotted keys; lists become text, which can be compared."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[prefix + key] = json.dumps(value) if isinstance(value, list) else value
    return found
