"""The published numbers of the papers' tables, read from ``conf/experiment/`` alone."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from omegaconf import OmegaConf
from pydantic import TypeAdapter

from server_app.config.choices import CONF, SWEEPS, names_in
from server_app.config.tables import Cell, Table
from task.errors import ConfigError
from univarfl.records.published import numbers_of
from univarfl.sweeps.combinations import lines_of

HEADINGS = ("sweep", "data", "method", "with", "number", "published")


def paper_rows(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return one row for each published number, in the order of the sweeps.

    Args:
        names: the sweeps; empty for all.

    Raises:
        ConfigError: there is no such sweep, or it makes a figure.
    """
    wanted = tables_named(names)
    rows = [row for table in published_tables() for row in rows_of(table)]
    return [row for name in wanted for row in rows if row[0] == name]


def tables_named(names: Sequence[str]) -> list[str]:
    """Return the sweeps of some tables; of every table if no name is given.

    Raises:
        ConfigError: there is no such sweep, or it makes a figure, which has no numbers.
    """
    tables = [name for name in names_in(SWEEPS) if "_figure" not in name]
    for name in names:
        lines_of([f"{SWEEPS}={name}"])  # raises if there is no such sweep
        if name not in tables:
            allowed = "makes a figure, which has no published numbers; choose a table"
            raise ConfigError(SWEEPS, name, allowed)
    return list(names) or tables


def published_tables() -> Iterator[Table]:
    """Yield the tables of every experiment."""
    for name in names_in("experiment"):
        content = OmegaConf.to_container(OmegaConf.load(CONF / "experiment" / f"{name}.yaml"))
        assert isinstance(content, dict)
        yield from TypeAdapter(list[Table]).validate_python(content["published"])


def rows_of(table: Table) -> Iterator[tuple[str, ...]]:
    """Yield the rows of one table."""
    for cell in table.cells:
        settings = {**table.at, **cell.at}
        data, method = str(settings.get("data", "")), str(settings.get("method", ""))
        head = sweep_of(table.name), data, method, varied(settings, cell)
        for number, value in numbers_of(cell).items():
            yield *head, number, value


def sweep_of(table: str) -> str:
    """Return the sweep that reproduces a table, such as feduv_table1 for "FedUV, Table 1"."""
    return table.lower().replace(", table ", "_table").replace(", ", "_")


def varied(settings: Mapping[str, Any], cell: Cell) -> str:
    """Return the settings that tell a number from the others of its table."""
    partition = settings.get("partition", "dirichlet")
    skew = (
        {"alpha": settings.get("alpha")} if partition == "dirichlet" else {"partition": partition}
    )
    others = {key: value for key, value in cell.at.items() if key not in ("method", "partition")}
    shown = {**skew, **others}
    return " ".join(f"{key}={value}" for key, value in shown.items() if value is not None)
