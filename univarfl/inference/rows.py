"""Predictions for rows of numbers, by a model of ``data=vectors``."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from task.data.sources.families.encoding import encode
from task.data.sources.families.row_table import Cells, as_texts, read_cells
from task.errors import ConfigError, system_reason
from task.inference.row_classifier import RowClassifier
from task.machine.files import from_home

BATCH = 8192


def of_tables(
    classifier: RowClassifier, tables: Sequence[str | Path | pd.DataFrame]
) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Yield each row of some tables, CSV or Parquet, with its probabilities [D].

    Args:
        classifier: the model.
        tables: files, or data frames.

    Raises:
        ConfigError: a file cannot be read.
        DataError: a file is no table with the columns of the model's schema.
    """
    names = [column.name for column in classifier.schema.columns]
    for table in tables:
        if isinstance(table, pd.DataFrame):
            cells = cells_of(table, names)
        elif isinstance(table, str | Path):
            try:
                cells = read_cells(from_home(str(table)), names)
            except OSError as error:
                raise ConfigError("tables", table, system_reason(error)) from None
        else:
            allowed = "must be paths of tables, or a pandas data frame"
            raise ConfigError("tables", type(table).__name__, allowed)
        yield from of_cells(classifier, cells)


def cells_of(frame: pd.DataFrame, names: Sequence[str]) -> Cells:
    """Return the cells of a data frame.

    Raises:
        ConfigError: a column is missing.
    """
    if missing := [name for name in names if name not in frame]:
        raise ConfigError("tables", "data frame", f"has no column {', '.join(missing)}")
    columns = {name: as_texts(frame[name].tolist()) for name in names}
    return Cells(Path("data frame"), range(len(frame)), columns)


@torch.inference_mode()
def of_cells(classifier: RowClassifier, cells: Cells) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Yield each row, by its place, with its probabilities [D].

    Raises:
        DataError: a cell has a value that the model's schema does not allow.
    """
    rows = torch.from_numpy(encode(classifier.schema, cells.columns, cells.place))
    device = next(classifier.parameters()).device
    found = [classifier(part.to(device)).cpu() for part in rows.split(BATCH)]
    for index, row in enumerate(torch.cat(found).numpy()):
        yield cells.place(index), row
