"""What a run needs to go on after its last full round, in one file of its directory."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from server_app.weights import Weights
from task.errors import ConfigError

NAME = "checkpoint.safetensors"
FACTS = "facts"


@dataclass(frozen=True)
class Checkpoint:
    """The state after a round.

    Attributes:
        round: the last full round.
        seconds: what the rounds up to it took.
        model: what `GlobalModel.state` gave.
        patience: what `Patience.state` gave.
    """

    round: int
    seconds: float
    model: "ModelState"
    patience: dict[str, Any]


@dataclass(frozen=True)
class ModelState:
    """All that moves a global model from round to round.

    Attributes:
        arrays: weights, the strategy's and the method's own, by kind and name.
        last_accepted: by client.
    """

    arrays: Weights
    last_accepted: list[int]


def save_checkpoint(directory: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint in one move."""
    facts = {
        "round": checkpoint.round,
        "seconds": checkpoint.seconds,
        "last_accepted": checkpoint.model.last_accepted,
        "patience": checkpoint.patience,
    }
    arrays = {name: np.asarray(value, order="C") for name, value in checkpoint.model.arrays.items()}
    temporary = directory / f"{NAME}.tmp"
    save_file(arrays, temporary, {FACTS: json.dumps(facts)})
    temporary.replace(directory / NAME)


def load_checkpoint(directory: Path) -> Checkpoint | None:
    """The checkpoint of a run; None if it was ended before its first round was full.

    Raises:
        ConfigError: there is one that cannot be read.
    """
    path = directory / NAME
    if not path.exists():
        return None
    try:
        with safe_open(path, "np") as file:
            facts = json.loads(file.metadata()[FACTS])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        model = ModelState(arrays, facts["last_accepted"])
        return Checkpoint(facts["round"], facts["seconds"], model, facts["patience"])
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ConfigError("resume", directory, f"{NAME} cannot be read: {error}") from None
