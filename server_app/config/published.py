"""The published numbers in ``conf/experiment/``, and which of them a run can be compared with."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from server_app.config.choices import names_in
from server_app.config.override_text import flat
from server_app.config.vocabulary.keys import listed_choices, settings_in_conf
from task.config import Strict

# The groups that decide a result. A table need not name their usual choices and values.
GROUPS = (
    "method", "model", "partition", "augmentation", "strategy", "guard", "after", "clock",
    "participation", "optim", "privacy", "secure",
)  # fmt: skip

Settings = Mapping[str, str | int | float | bool | None]
Further = Literal[
    "top_eigenvalue", "trace", "H_N", "H_D", "forward_mflop", "million_parameters", "round_seconds"
]
LABELS: dict[Further, str] = {
    "top_eigenvalue": "top eigenvalue", "trace": "trace", "H_N": "H_N", "H_D": "H_D",
    "forward_mflop": "forward MFLOP", "million_parameters": "million parameters",
    "round_seconds": "seconds a round",
}  # fmt: skip
TEST_ACCURACY = "test accuracy, %"


class Cell(Strict):
    """The numbers of a table for one method and setting.

    Attributes:
        at: the settings of this cell, by dotted key of the configuration; ``method`` means
            ``method.name``.
        mean: test accuracy of the global model in percent, if the table has it.
        sd: the standard deviation over seeds in percent, if the paper gives one.
        further: the table's other numbers. FedAlign's Table 1 has the curvature of the loss, its
            Tables 5 and 7 have FLOPs and parameters, and its and FedUV's Tables 5 have seconds.
    """

    at: Settings
    mean: Annotated[float, Field(ge=0, le=100)] | None = None
    sd: Annotated[float, Field(ge=0)] | None = None
    further: Mapping[Further, float] = {}

    @model_validator(mode="after")
    def _has_a_number(self) -> Self:
        if self.mean is None and (self.sd is not None or not self.further):
            raise ValueError("a published cell needs a mean, or further numbers and no sd")
        return self

    def numbers(self) -> dict[str, str]:
        """Return each number as text, by what it is."""
        further = {LABELS[name]: f"{value:g}" for name, value in self.further.items()}
        return further if self.mean is None else {TEST_ACCURACY: self.accuracy(), **further}

    def accuracy(self) -> str:
        """Return the test accuracy as text; empty if the table does not have it."""
        if self.mean is None:
            return ""
        digits = max(1, len(repr(self.mean).partition(".")[2]))
        deviation = f" ± {self.sd:.{digits}f}" if self.sd is not None else ""
        return f"{self.mean:.{digits}f}{deviation}"


class Table(Strict):
    """A table of a paper, or the part of it for one data set.

    Attributes:
        name: the name, as it is cited.
        at: the settings that all cells share.
        any_value: keys of settings whose value is not known: the release differs from the paper, or
            the source reports the best of several values without naming it. The numbers are shown
            beside runs with any value.
        cells: the numbers.
    """

    name: str
    at: Settings
    any_value: list[str] = Field(default_factory=list)
    cells: list[Cell]


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
    changed = {key for group in GROUPS for key in changes(config, group)} if matching else set()
    return [(name, cell) for name, cell, settings in matching if changed <= settings]


def changes(config: Mapping[str, Any], group: str) -> set[str]:
    """Return the dotted keys of a group whose values differ from the chosen file of ``conf/``.

    The group itself is among them if another file than the usual one is chosen.
    """
    own, usual_choice = config.get(group), listed_choices()[group]
    if not isinstance(own, Mapping):
        return set()
    name = own.get("name", usual_choice)
    usual = settings_in_conf(group, name) if name in names_in(group) else {}
    found = {
        f"{group}.{key}"
        for key, value in flat(own).items()
        if key in usual and value != resolved(usual[key], config)
    }
    return found if name == usual_choice else {group, *found}


def resolved(value: Any, config: Mapping[str, Any]) -> Any:
    """Return a value of ``conf/``; for a reference such as ``${alpha}``, its value in `config`."""
    reference = re.fullmatch(r"\$\{([\w.]+)\}", str(value))
    return value_at(config, reference[1]) if reference else value
