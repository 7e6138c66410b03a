"""The published numbers in ``conf/experiment/``, and which of them a run can be compared with."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from omegaconf import OmegaConf

from server_app.config.choices import CONF, files_in
from server_app.config.conf_settings import general_settings, settings_of_file
from server_app.config.override_text import flat
from server_app.config.tables import Cell, Further, Table

# The groups that decide a result. A table need not name their usual choices and values.
GROUPS = (
    "method", "model", "partition", "augmentation", "strategy", "guard", "after", "clock",
    "participation", "optim", "privacy", "secure", "stop", "update",
)  # fmt: skip
LABELS: dict[Further, str] = {
    "top_eigenvalue": "top eigenvalue", "trace": "trace", "H_N": "H_N", "H_D": "H_D",
    "forward_mflop": "forward MFLOP", "million_parameters": "million parameters",
    "round_seconds": "seconds a round",
}  # fmt: skip
TEST_ACCURACY = "test accuracy, %"


def numbers_of(cell: Cell) -> dict[str, str]:
    """Return each number of a cell as text, by what it is."""
    further = {LABELS[name]: f"{value:g}" for name, value in cell.further.items()}
    return further if cell.mean is None else {TEST_ACCURACY: accuracy_of(cell), **further}


def accuracy_of(cell: Cell) -> str:
    """Return the test accuracy of a cell as text; empty if the table does not have it."""
    if cell.mean is None:
        return ""
    digits = max(1, len(repr(cell.mean).partition(".")[2]))
    deviation = f" ± {cell.sd:.{digits}f}" if cell.sd is not None else ""
    return f"{cell.mean:.{digits}f}{deviation}"


def value_at(config: Mapping[str, Any], key: str) -> Any:
    """Return the value of a dotted key in a configuration; None if there is none."""
    value: Any = config
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    return value["name"] if isinstance(value, Mapping) and "name" in value else value


def published_numbers(config: Mapping[str, Any], tables: list[Table]) -> list[tuple[str, Cell]]:
    """Return the published numbers for the settings of `config`, each with its table's name.

    Settings that a table names neither in ``at`` nor in ``any_value`` must have their usual values
    in ``conf/``, and groups their choices in ``conf/config.yaml``.
    """
    matching = [
        (table.name, cell, {*settings, *table.any_value})
        for table in tables
        for cell in table.cells
        for settings in [{**table.at, **cell.at}]
        if all(value_at(config, key) == value for key, value in settings.items())
    ]
    groups = {key for group in GROUPS for key in changes(config, group)} if matching else set()
    changed = groups | loss_changes(config)
    return [(name, cell) for name, cell, settings in matching if changed <= settings]


def changes(config: Mapping[str, Any], group: str) -> set[str]:
    """Return the dotted keys of a group whose values differ from the chosen file of ``conf/``.

    The group itself is among them if another file than the usual one is chosen.
    """
    own, usual_choice = config.get(group), listed_choices()[group]
    if not isinstance(own, Mapping):
        return set()
    name = own.get("name", usual_choice)
    usual = settings_of_file(files[name]) if name in (files := files_in(group)) else {}
    found = {
        f"{group}.{key}"
        for key, value in flat(own).items()
        if key in usual and value != resolved(usual[key], config)
    }
    return found if name == usual_choice else {group, *found}


def loss_changes(config: Mapping[str, Any]) -> set[str]:
    """Return the dotted keys of the cross-entropy whose values differ from ``conf/config.yaml``."""
    usual = general_settings()
    found = flat({"train": config.get("train", {})})
    return {key for key, value in found.items() if value != usual.get(key)}


@cache
def listed_choices() -> dict[str, str | None]:
    """Return each group with its choice, in the order of ``conf/config.yaml``.

    A later group's file takes precedence over an earlier one's.
    """
    entries = OmegaConf.load(CONF / "config.yaml").defaults
    listed = [dict(entry) for entry in entries if not isinstance(entry, str)]
    return {str(group): name for entry in listed for group, name in entry.items()}


def resolved(value: Any, config: Mapping[str, Any]) -> Any:
    """Return a value of ``conf/``; for a reference such as ``${alpha}``, its value in `config`."""
    reference = re.fullmatch(r"\$\{([\w.]+)\}", str(value))
    return value_at(config, reference[1]) if reference else value
