"""The models of single rounds, kept for later analysis (`watch.models_every`)."""

from server_app.aggregation.weights import as_bytes, from_tensors
from server_app.rounds.result import Callback, RoundResult
from server_app.runs.recorder import Recorder
from server_app.runs.records.tables import MODELS
from task.machine.files import write_whole

RECEIVED, AGGREGATED, CLIENT = "received", "aggregated", "client-"  # owners of a file's models


class KeepModels(Callback):
    """Writes a round's models into a file in the run directory, if they are kept.

    Args:
        recorder: the run's.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._place = recorder.directory / MODELS

    def after_round(self, result: RoundResult) -> None:
        """Write them.

        Raises:
            OSError: they cannot be written.
        """
        if not result.models:
            return
        owners = {RECEIVED: result.models.received, AGGREGATED: result.models.aggregated}
        owners |= {f"{CLIENT}{client}": model for client, model in result.models.clients.items()}
        arrays = {
            f"{owner}/{name}": value
            for owner, model in owners.items()
            for name, value in from_tensors(model).items()
        }
        self._place.mkdir(exist_ok=True)
        path = self._place / f"round-{result.round:06}.safetensors"
        write_whole(path, as_bytes(arrays))
