"""A run: its record as data frames, and its model."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import univarfl.application  # noqa: F401

# isort: split

from server_app.runs.lookup import find_run
from server_app.runs.records.by_class import CLASS_METRICS, CONFUSION, TRUE_CLASS
from server_app.runs.records.client_scores import CLIENT_SCORES
from server_app.runs.records.run_record import read_record
from server_app.runs.records.tables import CLIENTS, EVENTS, ROUNDS, RecordError
from task.config import Device
from task.errors import ConfigError
from univarfl.records.clients import read_clients
from univarfl.records.csv_tables import read_table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from task.inference.classifier import Classifier

Images = str | Path | Sequence[str | Path] | Any


class Run:
    """One run: its record, read once when this object is made. `load_run` returns a `Run`.

    Attributes:
        directory: the run directory.
        record: the content of ``run.json``; each entry is an attribute, such as ``record.seconds``.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        try:
            self.record = read_record(directory)
        except RecordError as error:
            raise ConfigError("run", directory, str(error)) from None

    @property
    def id(self) -> str:
        """The name of the run directory."""
        return self.directory.name

    @property
    def status(self) -> Literal["completed", "failed", "running"]:
        """How the run stands; ``record.reason`` says why it failed."""
        return self.record.status

    @property
    def settings(self) -> Mapping[str, Any]:
        """Every setting of the run, nested as in ``conf/config.yaml``."""
        return self.record.config

    @property
    def accuracy(self) -> float | None:
        """Accuracy of the final global model, from 0 to 1; None if the run is not completed.

        It is that of the test set or, without one, of the clients' validation images.
        """
        found = self.record.results.accuracies() if self.record.completed else iter(())
        return next((value for _, value in found), None)

    @cached_property
    def rounds(self) -> "pd.DataFrame":
        """One row for each round, 0 being the untrained model.

        Columns: ``round``, and ``SPLIT_METRIC`` for each value, such as ``test_accuracy``,
        ``validation_loss`` and ``train_ce``. A value that a round does not have is NaN.

        Raises:
            ConfigError: ``rounds.csv`` cannot be read.
        """
        long = self._table(ROUNDS)
        long["column"] = long["split"] + "_" + long["metric"]
        order = list(dict.fromkeys(long["column"]))
        wide = long.pivot_table(index="round", columns="column", values="value", aggfunc="last")
        return wide.reindex(columns=order).rename_axis(columns=None).reset_index()

    @cached_property
    def clients(self) -> "pd.DataFrame":
        """One row for each client that was sampled in a round.

        Columns: ``round``, ``client``, ``site``, ``status`` ("ok", "failed" or "left out"),
        ``reason``, ``examples``, ``seconds``, ``device``, with simulated devices or FedBuff
        ``staleness`` and ``simulated_seconds``, and the mean of each loss term.
        The frame of ``clients.parquet`` (a completed run with more than 10,000 rows) is the same.

        Raises:
            ConfigError: the file cannot be read.
        """
        return self._table(CLIENTS)

    @cached_property
    def client_scores(self) -> "pd.DataFrame":
        """One row for each client: the final model's score on the images that it held out.

        Columns: ``client``, ``site``, ``images``, ``accuracy`` and mean ``loss``. Of more than
        1,000 clients it has a sample. ``record.client_scores`` has the mean, the worst tenth and
        the standard deviation of the accuracies.

        Raises:
            ConfigError: there is no ``client_scores.csv``: the run is not completed, no client has
                held-out images, the scores are secret (``secure=masked``, noise at the clients), or
                the run was made by a version that did not write the file.
        """
        return self._table(CLIENT_SCORES)

    @cached_property
    def class_metrics(self) -> "pd.DataFrame":
        """One row for each class: metrics of the class against all others on the test set.

        Columns: ``class``, ``images``, ``sensitivity``, ``specificity``, ``auroc`` and
        ``average_precision``. A metric that needs images which the test set lacks is NaN.

        Raises:
            ConfigError: there is no ``class_metrics.csv``: the run is not completed, has no test
                images, or was made by a version that did not write the file.
        """
        return self._table(CLASS_METRICS)

    @cached_property
    def confusion(self) -> "pd.DataFrame":
        """The confusion matrix of the final model on the test set, in images.

        The index has the true classes, and the columns the classes that the model gave.

        Raises:
            ConfigError: there is no ``confusion.csv``; see `class_metrics`.
        """
        return self._table(CONFUSION).set_index(TRUE_CLASS).rename_axis(columns="class")

    @cached_property
    def events(self) -> "pd.DataFrame":
        """One row for each event: ``time`` (UTC), ``round``, ``site`` and ``event``.

        Raises:
            ConfigError: ``events.csv`` cannot be read.
        """
        return self._table(EVENTS)

    def model(self, device: Device = "cpu", client: int | None = None) -> "Classifier":
        """Return the final model, in evaluation mode, as a `torch.nn.Module`.

        It maps images [n, h, w, C], uint8, of any height and width, to class probabilities [n, D],
        float32. Its ``network`` is the trained network itself, which maps normalised images
        [n, C, s, s], float32, to ``features`` and ``logits``.

        Args:
            device: where it is; "auto" means a GPU if there is one.
            client: the client whose own model to return, if each one keeps a part of it.

        Raises:
            ConfigError: there is no such model, or it does not fit this version.
            DeviceError: there is no GPU.
        """
        from univarfl.inference.model import trained_model  # noqa: PLC0415
        from univarfl.settings_kept import settings_kept  # noqa: PLC0415

        with settings_kept():
            return trained_model(self.directory, device, client).classifier

    def predict(
        self, images: Images, device: Device = "auto", client: int | None = None
    ) -> "pd.DataFrame":
        """Return the class and the probabilities of images, one row for each.

        Args:
            images: one or several paths of files, directories, globs or ``.txt`` lists of paths; or
                an array of images, uint8, [n, h, w] (greyscale) or [n, h, w, C] with C 1, 3 or 4.
            device: where to compute; "auto" means a GPU if there is one.
            client: the client whose own model predicts, if each one keeps a part of it.

        Returns:
            Columns ``image`` (the path, or the index in the array), ``class``, and the probability
            ``p_CLASS`` of each class. An image that cannot be read has no row, and a warning.

        Raises:
            ConfigError: the run has no model, or there are no images.
            DeviceError: there is no GPU.
            RunError: no image can be read.
        """
        from univarfl.prediction import predict  # noqa: PLC0415

        return predict(self.directory, images, device, client)

    def report(self, to: str | Path | None = None) -> Path:
        """Write the report of this run, and return its page, ``index.html``.

        Args:
            to: the directory of the report; None for ``report`` in the run directory.

        Raises:
            ConfigError: the report cannot be written.
            RunError: the run is not completed.
        """
        from univarfl.reporting import write_report  # noqa: PLC0415

        return write_report(self.directory, to)

    def plot(self) -> "Figure":
        """Return a figure of accuracy and loss terms over the rounds.

        Raises:
            ConfigError: ``rounds.csv`` cannot be read.
        """
        from server_app.tracking.curves import SIZE, draw_into  # noqa: PLC0415
        from univarfl.figure import ShownFigure  # noqa: PLC0415

        figure = ShownFigure(*SIZE)
        try:
            draw_into(figure, self.directory)
        except RecordError as error:
            raise ConfigError("run", self.directory, str(error)) from None
        return figure

    def _table(self, name: str) -> "pd.DataFrame":
        path = self.directory / name
        try:
            return read_clients(self.directory) if name == CLIENTS else read_table(path)
        except RecordError as error:
            raise ConfigError("run", self.directory, str(error)) from None

    def __repr__(self) -> str:
        accuracy = f", accuracy {self.accuracy:.3f}" if self.accuracy is not None else ""
        return f"<Run {self.id}: {self.status}{accuracy}>"


def load_run(name: str | Path) -> Run:
    """Return a run that exists, whatever its status.

    Args:
        name: the path of the run directory; or its name, which is looked up in ``$UNIVARFL_RUNS``
            (default: ``./runs``); or "latest" for the run that was started last in that directory.

    Raises:
        ConfigError: there is no such run, or its record is damaged.
    """
    return Run(find_run(name))
