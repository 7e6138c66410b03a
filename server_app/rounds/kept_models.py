"""The models of single rounds, kept for later analysis (`watch.models_every`)."""

from server_app.aggregation.weights import from_tensors
from server_app.rounds.result import Callback, RoundResult
from server_app.runs.recorder import Recorder
from server_app.runs.round_models import RoundModels, save_models


class KeepModels(Callback):
    """Writes a round's models into the run directory, if they are kept.

    Args:
        recorder: the run's.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._directory = recorder.directory

    def after_round(self, result: RoundResult) -> None:
        """Write them."""
        if result.models:
            clients = {c: from_tensors(model) for c, model in result.models.clients.items()}
            received = from_tensors(result.models.received)
            models = RoundModels(received, clients, from_tensors(result.models.aggregated))
            save_models(self._directory, result.round, models)
