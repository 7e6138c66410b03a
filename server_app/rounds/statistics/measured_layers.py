"""The layers that a stage has measured so far, in a file, from which a resumed run goes on."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError

from server_app.aggregation.weights import Weights, from_tensors
from server_app.runs.checkpoint import DIRECTORY, read_hashed, write_hashed
from task.machine.files import digest
from task.tensors import Tensors

FILE = "batch_norm.safetensors"

logger = logging.getLogger("univarfl")


class MeasuredLayers:
    """The new statistics of the layers that were measured, of one model.

    A site describes a layer only under one set of statistics of the layers before it. So a resumed
    stage must send those that it sent before, also if other sites answer now.

    Args:
        directory: the run's; the file is deleted with the checkpoints.
        model: the weights after the last round, on the CPU.

    Attributes:
        statistics: the running mean and variance of each measured layer, by the model's names.
        missing: by client, why it has not answered for one of these layers.
    """

    def __init__(self, directory: Path, model: Tensors) -> None:
        self._path = directory / DIRECTORY / FILE
        self._model = digest("", from_tensors(model))
        self.statistics: Weights = {}
        self.missing: dict[int, str] = {}
        if not self._path.exists():
            return
        try:
            self._read()
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            logger.warning("%s is damaged, and all layers are measured: %s", self._path, error)

    def keep(self, statistics: Weights, missing: Mapping[int, str]) -> None:
        """Add the statistics of a layer.

        Args:
            statistics: by the model's names.
            missing: by client, why it has not answered.

        Raises:
            OSError: they cannot be written.
        """
        self.statistics |= statistics
        self.missing |= missing
        facts = json.dumps({"model": self._model, "missing": sorted(self.missing.items())})
        self._path.parent.mkdir(exist_ok=True)
        write_hashed(self._path, facts, self.statistics)

    def _read(self) -> None:
        arrays, text = read_hashed(self._path)
        facts = json.loads(text)
        if facts["model"] == self._model:
            self.statistics, self.missing = arrays, dict(facts["missing"])
