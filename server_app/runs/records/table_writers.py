"""The tables that a run writes: they only grow, and their content is hashed as it is written."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from server_app.aggregation.client_update import ClientUpdate
from server_app.config.experiment import Experiment
from server_app.rounds.clock.base import is_timed
from server_app.runs.records.csv_files import rows_as_csv
from server_app.runs.records.tables import (
    CLASS_COLUMNS,
    CLASSES,
    CLIENT_COLUMNS,
    CLIENT_LOSSES,
    CLIENTS,
    EVENT_COLUMNS,
    EVENTS,
    ROUND_COLUMNS,
    ROUNDS,
    TIMED_COLUMNS,
)
from task.machine.files import GrowingFile, Mark
from task.machine.regular import open_regular


class RunTables:
    """The tables of a run.

    Args:
        directory: the run directory.
        experiment: decides the columns of ``clients.csv``.
        kept: the marks of the tables at the checkpoint that the run goes on from. Later rows are
            removed, but not those of ``events.csv``. Without a checkpoint it is empty.
        resumed: whether the run is resumed.

    Raises:
        OSError: they cannot be written.
    """

    def __init__(
        self, directory: Path, experiment: Experiment, kept: Mapping[str, Mark], resumed: bool
    ) -> None:
        self._timed = TIMED_COLUMNS if is_timed(experiment) else ()
        terms = experiment.local_method().reported_terms()
        self._client_losses = list(dict.fromkeys([*CLIENT_LOSSES, *terms]))
        clients = [*CLIENT_COLUMNS, *self._timed, *self._client_losses]
        columns: dict[str, Sequence[str]] = {
            ROUNDS: ROUND_COLUMNS, CLASSES: CLASS_COLUMNS, CLIENTS: clients, EVENTS: EVENT_COLUMNS
        }  # fmt: skip
        lengths = {name: kept[name][0] if name in kept else 0 for name in columns}
        if resumed:
            lengths[EVENTS] = whole_length(directory / EVENTS)
        self._files = {name: GrowingFile(directory / name, lengths[name]) for name in columns}
        for name, names in columns.items():
            if not lengths[name]:
                self.add(name, [names])

    @property
    def marks(self) -> dict[str, Mark]:
        """The mark of each table as it is now."""
        return {name: file.mark for name, file in self._files.items()}

    def add(self, name: str, rows: Iterable[Iterable[Any]]) -> None:
        """Add rows to a table, each on one line, and flush them to the disk.

        A checkpoint is written after the rows of its round, so the disk never has a checkpoint
        without its rows.

        Raises:
            OSError: they cannot be written.
        """
        self._files[name].append(rows_as_csv([on_one_line(cell) for cell in row] for row in rows))

    def add_clients(self, server_round: int, updates: Iterable[ClientUpdate]) -> None:
        """Add what each participant of a round sent.

        Raises:
            OSError: it cannot be written.
        """
        timed, losses = self._timed, self._client_losses
        self.add(CLIENTS, (client_row(server_round, each, timed, losses) for each in updates))


def on_one_line(cell: Any) -> Any:
    """Return a cell, with blanks in place of the line ends of a text."""
    return cell.replace("\r", " ").replace("\n", " ") if isinstance(cell, str) else cell


def whole_length(path: Path) -> int:
    """Return the number of bytes of a file up to its last line end.

    Raises:
        OSError: it cannot be read.
    """
    with open_regular(path) as file:
        return file.read().rfind(b"\n") + 1


def client_row(
    server_round: int, update: ClientUpdate, timed: Sequence[str], losses: Sequence[str]
) -> list[Any]:
    """Return one participant's row of ``clients.csv``; what it did not report is empty.

    Args:
        server_round: the round.
        update: its outcome.
        timed: those of `TIMED_COLUMNS` that the table has.
        losses: the columns of losses.
    """
    values = (getattr(update, name) for name in (*CLIENT_COLUMNS[1:], *timed))
    told = [round(value, 3) if isinstance(value, float) else value for value in values]
    return [server_round, *told, *(update.losses.get(name, "") for name in losses)]
