"""The words that people type, ``key=value`` in the grammar of Hydra.

This is the only module that uses Hydra's parser of overrides. Hydra documents the parser for
plugins alone, and offers no other way to read an override without composing a configuration.
``tests/server_app/config/test_overrides.py`` fails when the parser changes.
"""

import re
import shlex
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override as ParsedOverride
from hydra.errors import HydraException

from server_app.config.choices import choices
from server_app.config.conf_settings import NAME
from server_app.config.override_text import quoted
from server_app.config.vocabulary import EXACT, override_like, unknown_choice
from task.errors import ConfigError
from task.extensions import PLUS

DECIMAL_COMMA = re.compile(r"0,\d+")
SIMPLE_LIST = re.compile(r"\[[^\[\]{}'\"]*\]")  # of names without quotes
PLAIN = re.compile(r"[A-Za-z0-9_.+-]+")  # a name or number that Hydra reads without quotes
HYDRA = "hydra"  # the group of Hydra's own settings
EXAMPLE = "write key=value, as in alpha=0.05"
QUOTES = (
    "quote the whole word, and each name with a comma or a quote, as in "
    """"data.classes=['a, b','c']\""""
)
TEXTS = ("run_id", "output_dir", "resume")  # keys whose value is text, also if it is a number


class Override(NamedTuple):
    """A word that sets one value.

    Attributes:
        text: the word as Hydra reads it.
        key: the dotted key, or the name of a configuration group.
        value: the value as typed.
    """

    text: str
    key: str
    value: str


def read_override(word: str) -> Override:
    """Read a word that sets one value.

    Raises:
        ConfigError: it cannot be read, does something else than set one value, or makes an unknown
            choice.
    """
    text = legible(word)
    parsed = parse(text)
    key, value = parsed.key_or_group, text.partition("=")[2]
    group, _, setting = key.partition(".")
    if group.partition("/")[0] == HYDRA:
        raise ConfigError(key, value, "unknown key; the settings of Hydra itself cannot be changed")
    if parsed.is_delete():
        raise ConfigError("override", word, f"a setting cannot be removed; {EXAMPLE}")
    if parsed.package is not None:
        raise ConfigError("override", word, f"'@' is not allowed in a key; {EXAMPLE}")
    if not key:
        raise ConfigError("override", word, f"has no key; {EXAMPLE}")
    if parsed.is_sweep_override():
        number = key != "seed" and DECIMAL_COMMA.fullmatch(value)
        point = f"write {key}={value.replace(',', '.')}, or " if number else ""
        each = f"for a run of each value: univarfl sweep {shlex.quote(word)}"
        raise ConfigError(key, value, f"must be one value; {point}{each}")
    if key in choices():
        if parsed.is_add() or parsed.is_force_add():
            raise ConfigError(key, value, f"write {key}={value}, without '+'")
        names = value.split(PLUS) if key == "method" else [value]
        if not {name.strip(" '\"") for name in names} <= {*choices()[key]}:
            raise unknown_choice(key, value)
    options = choices().get(group)
    if options and setting == NAME and (same := override_like(group, value, options, EXACT)):
        raise ConfigError(key, value, f"write {same}")  # the group's other settings would stay
    if key in TEXTS and isinstance(parsed.value(), bool | int | float):
        return Override(f"{text.partition('=')[0]}={quoted(value)}", key, value)
    return Override(text, key, value)


@lru_cache(maxsize=1024)
def parse(text: str) -> ParsedOverride:
    """Parse an override with Hydra's own parser.

    Raises:
        HydraException: the text is not an override.
    """
    return OverridesParser.create().parse_override(text)


def legible(word: str) -> str:
    """Return a word that Hydra can read: the value is quoted if Hydra cannot read it as typed.

    Of a list, each name with a space or an accent is quoted.

    Raises:
        ConfigError: the word cannot be read in either form.
    """
    key, _, value = word.partition("=")
    bracketed = value.startswith(("[", "{", "'", '"'))
    attempts = [word]
    if SIMPLE_LIST.fullmatch(value):
        attempts.append(f"{key}={quoted_names(value)}")
    elif value and not bracketed:
        attempts.append(f"{key}={quoted(value)}")
    for attempt in attempts:
        with suppress(HydraException):
            parse(attempt)
            return attempt
    raise ConfigError("override", word, f"cannot be read; {QUOTES if bracketed else EXAMPLE}")


def quoted_names(value: str) -> str:
    """Return a list of names, each quoted unless Hydra reads it without quotes."""
    names = [name.strip() for name in value[1:-1].split(",")]
    return f"[{','.join(name if PLAIN.fullmatch(name) else quoted(name) for name in names)}]"
