"""Several runs, to be compared."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import univarfl.application  # noqa: F401

# isort: split

from server_app.runs.lookup import run_directories, runs_parent
from task.errors import ConfigError
from univarfl.records.differences import differing_settings
from univarfl.run import Run

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class Runs(Sequence[Run]):
    """A list of runs, which can be indexed, sliced and iterated over.

    Args:
        runs: the runs.
    """

    def __init__(self, runs: Iterable[Run]) -> None:
        self._runs = list(runs)

    def __len__(self) -> int:
        return len(self._runs)

    @overload
    def __getitem__(self, index: int) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> "Runs": ...
    def __getitem__(self, index: int | slice) -> "Run | Runs":
        if isinstance(index, slice):
            return Runs(self._runs[index])
        return self._runs[index]

    def __repr__(self) -> str:
        return f"<Runs: {len(self)}>"

    @property
    def table(self) -> "pd.DataFrame":
        """One row for each run: the settings that differ, ``status``, ``accuracy`` and ``run``."""
        import pandas as pd  # noqa: PLC0415

        rows = [
            {**own, "status": run.status, "accuracy": run.accuracy, "run": run.id}
            for run, own in zip(self, self.differences(), strict=True)
        ]
        return pd.DataFrame(rows)

    def differences(self) -> list[dict[str, Any]]:
        """Return the settings of each run that not all runs share, by dotted key.

        If runs differ in a group's choice, such as the method, only the choice is given, as
        ``{"method": "fedavg"}``.
        """
        return differing_settings([run.settings for run in self])

    def plot(self, metric: str = "test_accuracy") -> "Figure":
        """Return a figure with one curve over the rounds for each run.

        Args:
            metric: a column of `Run.rounds`.

        Raises:
            ConfigError: no run has that column.
        """
        from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

        from univarfl.figure import ShownFigure  # noqa: PLC0415

        figure = ShownFigure(6, 4)
        axes = figure.subplots()
        for run, own in zip(self, self.differences(), strict=True):
            if metric in run.rounds:
                curve = run.rounds[["round", metric]].dropna()
                label = ", ".join(f"{key}={value}" for key, value in own.items()) or run.id
                axes.plot(curve["round"], curve[metric], marker=".", label=label)
        if not axes.lines:
            known = dict.fromkeys(column for run in self for column in run.rounds.columns[1:])
            raise ConfigError("metric", metric, f"choose one of {', '.join(known)}")
        axes.set(xlabel="round", ylabel=metric.replace("_", " "))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(alpha=0.3)
        axes.legend()
        return figure

    def report(self, to: str | Path | None = None) -> Path:
        """Write a report, and return its page, ``index.html``.

        It covers every run in the directory of these runs.

        Args:
            to: the directory of the report; None for ``report`` beside the runs.

        Raises:
            ConfigError: there are no runs, they are in several directories, or the report cannot be
                written.
            RunError: no run is completed.
        """
        from univarfl.reporting import write_report  # noqa: PLC0415

        places = {run.directory.parent for run in self}
        if len(places) != 1:
            raise ConfigError("runs", len(self), "must be runs of one directory")
        return write_report(places.pop(), to)


def load_runs(directory: str | Path | None = None) -> Runs:
    """Return all runs in a directory, whatever their status, the one that started first first.

    After a sweep in which some runs failed, these are the completed ones::

        Runs(run for run in load_runs("runs/skew") if run.status == "completed")

    Args:
        directory: the parent of run directories; None for ``$UNIVARFL_RUNS`` (default: ``./runs``).

    Raises:
        ConfigError: it holds no run, or a record is damaged.
    """
    parent = runs_parent(None if directory is None else str(directory))
    found = run_directories(parent)
    if not found:
        raise ConfigError("directory", parent, "holds no runs")
    return Runs(map(Run, found))
