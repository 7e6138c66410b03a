"""A paper's numbers, as ``conf/experiment/`` has them, and which of them a run can stand beside."""

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

from omegaconf import OmegaConf
from pydantic import Field

from server_app.choices import CONF, names_in
from server_app.flattening import flat
from task.config import Strict

# What a table may leave unsaid; the rest either says where, or how fast, or what is looked at.
GROUPS = ("method", "model", "partition", "augmentation", "strategy", "guard", "optim")

Settings = Mapping[str, str | int | float | bool | None]


class Cell(Strict):
    """One number of a table.

    Attributes:
        at: the settings that tell it from the table's others, by dotted key of the configuration;
            ``method`` stands for ``method.name``.
        mean: test accuracy of the global model, %.
        sd: its standard deviation over seeds, if the paper gives one.
    """

    at: Settings
    mean: Annotated[float, Field(ge=0, le=100)]
    sd: Annotated[float, Field(ge=0)] | None = None

    def __str__(self) -> str:
        return f"{self.mean:.1f}" + (f" ± {self.sd:.1f}" if self.sd is not None else "")


class Table(Strict):
    """A table of a paper, or the part of it that is one data set's.

    Attributes:
        name: as it is cited.
        at: the settings that all its cells share, in which an experiment may be changed.
        cells: its numbers.
    """

    name: str
    at: Settings
    cells: list[Cell]


def value_at(config: Mapping[str, Any], key: str) -> Any:
    """What a configuration has under a dotted key; None if nothing."""
    value: Any = config
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    return value["name"] if isinstance(value, Mapping) and "name" in value else value


def beside(config: Mapping[str, Any], tables: list[Table]) -> list[tuple[str, Cell]]:
    """The published numbers of the very settings that `config` has, each with its table's name.

    What a table does not say has to be as ``conf/`` has it.
    """
    told = [
        (table.name, cell, said)
        for table in tables
        for cell in table.cells
        for said in [{**table.at, **cell.at}]
        if all(value_at(config, key) == value for key, value in said.items())
    ]
    changed = {key for group in GROUPS for key in changes(config, group)} if told else set()
    return [(name, cell) for name, cell, said in told if changed <= said.keys()]


def changes(config: Mapping[str, Any], group: str) -> set[str]:
    """The dotted keys of a group in which a configuration differs from what it has chosen there."""
    own, names = config.get(group), names_in(group)
    if not isinstance(own, Mapping):
        return set()
    name = own.get("name", names[0])
    usual = chosen(group, name) if name in names else {}
    return {
        f"{group}.{key}"
        for key, value in flat(own).items()
        if key in usual and value != usual[key] and not str(usual[key]).startswith("${")
    }


@cache
def chosen(group: str, name: str) -> dict[str, Any]:
    """What a file of ``conf/`` says."""
    values = OmegaConf.to_container(OmegaConf.load(CONF / group / f"{name}.yaml"), resolve=False)
    assert isinstance(values, dict)
    return flat({str(key): value for key, value in values.items()})
