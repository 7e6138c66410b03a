"""Completion of overrides in the shell; see ``univarfl --install-completion``."""

import os
from collections.abc import Sequence

import click

from server_app.config.choices import SWEEPS, choices, names_in

FIXED = {
    "device": ("auto", "cpu", "cuda"),
    "engine": ("flower", "inprocess"),
    "model.norm": ("batch", "group"),
    "strategy.weighting": ("examples", "uniform"),
    "runtime.precision": ("float32", "tf32", "bfloat16"),
}


def complete_override(ctx: click.Context, incomplete: str) -> list[str]:
    """Return the overrides that a word may become.

    Bash hands over ``method=fed`` as three words, other shells as one.
    """
    before: Sequence[str] = ctx.params.get("overrides") or ()
    if before and not incomplete and os.environ.get("COMP_WORDS", "").endswith("="):
        return values_of(before[-1])  # click makes "" of the word "="
    if len(before) > 1 and before[-1] == "=":
        return [value for value in values_of(before[-2]) if value.startswith(incomplete)]
    key, sign, value = incomplete.partition("=")
    if sign:
        return [f"{key}={option}" for option in values_of(key) if option.startswith(value)]
    keys = [known for known in known_keys() if known.startswith(incomplete)]
    if len(keys) == 1 and (options := values_of(keys[0])):  # no space then follows the "="
        return [f"{keys[0]}={option}" for option in options]
    return [f"{key}=" for key in keys]


def known_keys() -> list[str]:
    """Return every key, and ``sweep``."""
    from server_app.config.conf_settings import every_key  # noqa: PLC0415

    return [*every_key(), SWEEPS]


def values_of(key: str) -> list[str]:
    """Return the values that a key can have, if they can be listed."""
    if key == SWEEPS:
        return names_in(SWEEPS)
    return choices().get(key) or list(FIXED.get(key, ()))
