"""The settings in the files of ``conf/``."""

from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from server_app.config.choices import CONF, choices, files_in
from server_app.config.override_text import flat

NAME = "name"  # the key that holds the choice of a group, which people set as GROUP=NAME


@cache
def general_settings() -> dict[str, Any]:
    """Return the settings of ``conf/config.yaml`` that belong to no group, with their defaults."""
    found = settings_of_file(CONF / "config.yaml")
    return {key: value for key, value in found.items() if key != "defaults"}


@cache
def settings_of_file(file: Path) -> dict[str, Any]:
    """Return the settings in a file of ``conf/`` by dotted key; references stay as they are."""
    values = OmegaConf.to_container(OmegaConf.load(file), resolve=False)
    assert isinstance(values, dict)
    return flat({str(key): value for key, value in values.items()})


def settings_of_choice(group: str, name: str) -> dict[str, Any]:
    """Return the settings that only this choice has, by full key such as ``optim.lr``."""
    inside = f"{group}."
    found = settings_of_file(files_in(group)[name])
    if files_in(group)[name].read_text().startswith("# @package _global_"):
        own = {key: value for key, value in found.items() if key.startswith(inside)}
    else:
        own = {inside + key: value for key, value in found.items()}
    return {key: value for key, value in own.items() if key != inside + NAME}


@cache
def choices_with() -> dict[str, list[str]]:
    """Return each key of a group with the choices that have it, as ``GROUP=NAME``."""
    found: dict[str, list[str]] = defaultdict(list)
    for group, names in choices().items():
        for name in names:
            for key in settings_of_choice(group, name):
                found[key].append(f"{group}={name}")
    return dict(found)


@cache
def every_key() -> tuple[str, ...]:
    """Return every key: the general ones, the groups, and the settings of every choice."""
    return (*general_settings(), *choices(), *choices_with())
