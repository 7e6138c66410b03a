"""What the devices of a population can do: read from a file."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from server_app.rounds.devices.profiles import BYTES_PER_MEGABIT, DAY, HOUR, Profiles
from task.errors import ConfigError, system_reason
from task.machine.regular import regular

COLUMNS = {  # of the file: the least and the most that is allowed
    "seconds_per_image": (0.0, 1e6),
    "megabits": (1e-6, 1e9),
    "available_from": (0.0, 24.0),
    "available_hours": (1e-3, 24.0),
    "dropout": (0.0, 1.0),
}
LARGEST = 1_000_000_000  # bytes


def read_trace(path: Path, clients: int) -> Profiles:
    """Read a CSV file with a row for each client, in their order, and the columns `COLUMNS`.

    Further rows are not read, so one file serves runs of several numbers of clients.

    Raises:
        ConfigError: the file cannot be read, or has other columns, too few rows, or values that
            are not allowed.
    """

    def refuse(allowed: str) -> ConfigError:
        return ConfigError("clock.trace", path, allowed)

    try:
        if regular(path).stat().st_size > LARGEST:
            raise refuse(f"must have at most {LARGEST:,} bytes")
        with warnings.catch_warnings(action="error", category=pd.errors.ParserWarning):
            frame = pd.read_csv(path, nrows=clients, index_col=False)
    except OSError as error:
        raise refuse(f"must be a file: {system_reason(error)}") from None
    except (ValueError, UnicodeError, pd.errors.ParserWarning) as error:
        raise refuse(f"must be a CSV file: {str(error).splitlines()[0]}") from None
    if list(frame.columns) != list(COLUMNS):
        raise refuse(f"must have the columns {','.join(COLUMNS)}")
    if len(frame) < clients:
        raise refuse(f"has {len(frame)} rows, and there are {clients} clients")
    for name, (least, most) in COLUMNS.items():
        values = pd.to_numeric(frame[name], errors="coerce").to_numpy(np.float64)
        wrong = np.flatnonzero(~((least <= values) & (values <= most)))
        if len(wrong):
            line = int(wrong[0]) + 2
            raise refuse(f"line {line}: {name} must be from {least:g} to {most:g}")
        frame[name] = values
    columns = {name: frame[name].to_numpy(np.float64) for name in COLUMNS}
    return Profiles(
        columns["seconds_per_image"],
        columns["megabits"] * BYTES_PER_MEGABIT,
        columns["available_from"] * HOUR % DAY,
        columns["available_hours"] * HOUR,
        columns["dropout"],
    )
