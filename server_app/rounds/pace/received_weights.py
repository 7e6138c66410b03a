"""The global weights that running jobs started from, as files of the run."""

import shutil
from collections.abc import Collection
from pathlib import Path

from safetensors import SafetensorError

from server_app.aggregation.weights import as_bytes, from_file, from_tensors, to_tensors
from server_app.rounds.errors import RunFailedError
from task.machine.files import ANY_ROUND, write_whole
from task.tensors import Tensors

DIRECTORY = "running_jobs"


class ReceivedWeights:
    """By round, the weights from which its clients started.

    They are on disk, so that memory does not grow with the staleness of updates, and a resumed run
    finds them.

    Args:
        directory: the run's.
    """

    def __init__(self, directory: Path) -> None:
        self._run, self._directory = directory, directory / DIRECTORY

    def keep(self, server_round: int, weights: Tensors) -> None:
        """Keep the weights from which the clients of a round start."""
        self._directory.mkdir(exist_ok=True)
        write_whole(self._path(server_round), as_bytes(from_tensors(weights)))

    def load(self, server_round: int) -> Tensors:
        """Return the weights from which the clients of a round started.

        Raises:
            RunFailedError: they are missing or damaged.
        """
        path = self._path(server_round)
        try:
            return to_tensors(from_file(path)[0])
        except (OSError, SafetensorError) as error:
            raise RunFailedError(f"{path} cannot be read: {error}; start the run again") from None

    def drop_others(self, needed: Collection[int]) -> None:
        """Delete the weights of all rounds but these."""
        kept = {self._path(server_round) for server_round in needed}
        for path in self._directory.glob(ANY_ROUND):
            if path not in kept:
                path.unlink(missing_ok=True)

    def delete(self) -> None:
        """Delete all."""
        shutil.rmtree(self._directory, ignore_errors=True)

    def _path(self, server_round: int) -> Path:
        return self._run / file_of_round(server_round)


def file_of_round(server_round: int) -> str:
    """Return the path, in the run directory, of the weights of a round."""
    return f"{DIRECTORY}/round-{server_round:06}.safetensors"
