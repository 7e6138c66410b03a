"""Conversion of Python values to the words of the command: ``alpha=0.05``."""

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

import univarfl.application  # noqa: F401

# isort: split

from server_app.config.override_text import quoted
from task.errors import ConfigError

PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.+/-]*")
KEYWORDS = {"true", "false", "null", "nan", "inf"}


def words_of(settings: Mapping[str, Any]) -> list[str]:
    """Return settings as the words of ``univarfl train``.

    Args:
        settings: values by key. A key may have dots. A mapping is a group: its ``name`` chooses
            the group's file, and its other entries are keys in it.

    Raises:
        ConfigError: a value is neither a number, text, path, boolean, None, sequence nor mapping.
    """
    return [f"{key}={text(key, value)}" for key, value in entries(settings)]


def entries(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each dotted key and its value; choices of files come before the keys in them."""
    for key, value in settings.items():
        if not isinstance(value, Mapping):
            yield f"{prefix}{key}", value
            continue
        inner = dict(value)
        if not prefix and "name" in inner:
            yield key, inner.pop("name")
        yield from entries(inner, f"{prefix}{key}.")


def text(key: str, value: Any) -> str:
    """Return one value in the grammar of Hydra.

    Raises:
        ConfigError: the grammar has no such value.
    """
    if hasattr(value, "item") and not getattr(value, "shape", ()):
        # A scalar of NumPy or PyTorch; float32's 0.1 is 0.1, and not 0.10000000149.
        found = np.asarray(value.cpu() if hasattr(value, "cpu") else value)[()]
        value = float(str(found)) if isinstance(found, np.floating) else found.item()
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str | os.PathLike):
        word = os.fspath(value)
        if isinstance(word, str):
            plain = PLAIN.fullmatch(word) and word.lower() not in KEYWORDS
            return word if plain else quoted(word)
    if isinstance(value, list | tuple):
        return f"[{','.join(text(key, each) for each in value)}]"
    allowed = "must be a number, text, path, boolean, None, list or dictionary"
    raise ConfigError(key, repr(value), allowed)
