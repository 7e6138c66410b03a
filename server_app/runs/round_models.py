"""The models of single rounds, stored for later analysis: one file per round."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from server_app.aggregation.weights import Readable, as_bytes
from server_app.runs.records.tables import MODELS
from task.machine.files import write_whole

RECEIVED, AGGREGATED, CLIENT = "received", "aggregated", "client-"


@dataclass(frozen=True)
class RoundModels:
    """A round's models.

    Attributes:
        received: the global weights that the participants received.
        clients: by client, the weights that it sent, of accepted updates.
        aggregated: the global weights after the round.
    """

    received: Readable
    clients: Mapping[int, Readable]
    aggregated: Readable


def save_models(directory: Path, server_round: int, models: RoundModels) -> None:
    """Write a round's models to the run directory.

    Raises:
        OSError: they cannot be written.
    """
    owners = {RECEIVED: models.received, AGGREGATED: models.aggregated}
    owners |= {f"{CLIENT}{client}": weights for client, weights in models.clients.items()}
    arrays = {
        f"{owner}/{name}": value
        for owner, weights in owners.items()
        for name, value in weights.items()
    }
    place = directory / MODELS
    place.mkdir(exist_ok=True)
    write_whole(place / f"round-{server_round:06}.safetensors", as_bytes(arrays))
