"""The published numbers that an experiment can have, as values."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, TypeAdapter, model_validator

from task.config import Strict

Settings = Mapping[str, str | int | float | bool | None]
Further = Literal[
    "top_eigenvalue", "trace", "H_N", "H_D", "forward_mflop", "million_parameters", "round_seconds"
]


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


TABLES = TypeAdapter(list[Table])
