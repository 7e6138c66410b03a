"""The words that people type, ``key=value`` in the grammar of Hydra.

This is the only module that uses Hydra's parser of overrides. Hydra documents the parser for
plugins alone, and offers no other way to read an override without composing a configuration.
``tests/server_app/config/vocabulary/test_overrides.py`` fails when the parser changes.
"""

import re
import shlex
from dataclasses import dataclass, replace
from functools import lru_cache

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override as ParsedOverride
from hydra.errors import HydraException

from server_app.config.choices import choices
from server_app.config.override_text import quoted
from server_app.config.vocabulary.keys import NAME
from server_app.config.vocabulary.suggestions import same
from task.errors import ConfigError
from task.extensions import PLUS

DECIMAL_COMMA = re.compile(r"0,\d+")
SIMPLE_LIST = re.compile(r"\[[^\[\]{}'\"]*\]")  # of names without quotes
PLAIN = re.compile(r"[A-Za-z0-9_.+-]+")  # a name or number that Hydra reads without quotes
HYDRA = "hydra"  # the group of Hydra's own settings
EXAMPLE = "write key=value, as in alpha=0.05"
TEXTS = ("run_id", "output_dir", "resume")  # keys whose value is text, also if it is a number
NUMBER_MEANS = {"participation": "rho", "partition": "alpha"}  # for a number in place of a name


@dataclass(frozen=True)
class Override:
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
        ConfigError: it cannot be read, does something else than set one value, or chooses a file
            of a group by the wrong key.
    """
    text = legible(word)
    parsed = parse(text)
    override = Override(text, parsed.key_or_group, text.partition("=")[2])
    if override.key.split(".")[0].split("/")[0] == HYDRA:
        allowed = "unknown key; the settings of Hydra itself cannot be changed"
        raise ConfigError(override.key, override.value, allowed)
    if parsed.is_delete():
        raise ConfigError("override", word, f"a setting cannot be removed; {EXAMPLE}")
    if parsed.package is not None:
        raise ConfigError("override", word, f"'@' is not allowed in a key; {EXAMPLE}")
    if parsed.is_sweep_override():
        number = override.key != "seed" and DECIMAL_COMMA.fullmatch(override.value)
        point = f"write {override.key}={override.value.replace(',', '.')}, or " if number else ""
        each = f"for a run of each value: univarfl sweep {shlex.quote(word)}"
        allowed = f"must be one value; {point}{each}"
        raise ConfigError(override.key, override.value, allowed)
    if not override.key:
        raise ConfigError("override", word, f"has no key; {EXAMPLE}")
    if override.key in choices():
        _check_choice(parsed, override)
    group, _, setting = override.key.partition(".")
    if setting == NAME and group in choices():
        named = [same(name, choices()[group]) for name in override.value.split(PLUS)]
        if all(named):  # it would leave the other settings of the group as they are
            allowed = f"write {group}={PLUS.join(map(str, named))}"
            raise ConfigError(override.key, override.value, allowed)
    if override.key in TEXTS and isinstance(parsed.value(), bool | int | float):
        return replace(override, text=f"{text.partition('=')[0]}={quoted(override.value)}")
    return override


def _check_choice(parsed: ParsedOverride, override: Override) -> None:
    """Refuse a choice of a configuration group in a form that Hydra cannot use."""
    if parsed.is_add() or parsed.is_force_add():
        allowed = f"write {override.key}={override.value}, without '+'"
        raise ConfigError(override.key, override.value, allowed)
    if override.key != "method" and not isinstance(parsed.value(), str):
        if isinstance(parsed.value(), int | float) and (key := NUMBER_MEANS.get(override.key)):
            raise ConfigError(override.key, override.value, f"write {key}={override.value}")
        allowed = f"choose one of {', '.join(choices()[override.key])}"
        raise ConfigError(override.key, override.value, allowed)


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
    second = quoted_names(value) if SIMPLE_LIST.fullmatch(value) else quoted(value)
    for attempt in (word, f"{key}={second}"):
        try:
            parse(attempt)
        except HydraException:
            if not value:
                break
            if value[0] in "[{'\"" and second == quoted(value):
                allowed = (
                    "cannot be read; quote the whole word, and each name with a comma or a quote, "
                    """as in "data.classes=['a, b','c']\""""
                )
                raise ConfigError("override", word, allowed) from None
        else:
            return attempt
    raise ConfigError("override", word, f"cannot be read; {EXAMPLE}")


def quoted_names(value: str) -> str:
    """Return a list of names, each quoted unless Hydra reads it without quotes."""
    names = [name.strip() for name in value[1:-1].split(",")]
    return f"[{','.join(name if PLAIN.fullmatch(name) else quoted(name) for name in names)}]"
