"""What a run needs to go on after its last full round: one file a round, the last two are kept."""

import hashlib
import json
import logging
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.numpy import load

from server_app.weights import Weights, as_bytes
from task.errors import ConfigError
from task.files import write_whole

DIRECTORY, KEPT = "checkpoints", 2
FACTS, DIGEST = "facts", "sha256"

logger = logging.getLogger("univarfl")


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
        train_sizes: by client, its training images at the last update; 0 if it had not come yet.
    """

    arrays: Weights
    last_accepted: list[int]
    train_sizes: list[int]


def save_checkpoint(directory: Path, checkpoint: Checkpoint) -> None:
    """Write a run's checkpoint in one move, and delete those before the last.

    Raises:
        OSError: it cannot be written; the last one is as it was.
    """
    facts = json.dumps(
        {
            "round": checkpoint.round,
            "seconds": checkpoint.seconds,
            "last_accepted": checkpoint.model.last_accepted,
            "train_sizes": checkpoint.model.train_sizes,
            "patience": checkpoint.patience,
        }
    )
    place = directory / DIRECTORY
    place.mkdir(exist_ok=True)
    metadata = {FACTS: facts, DIGEST: digest(facts, checkpoint.model.arrays)}
    content = as_bytes(checkpoint.model.arrays, metadata)
    write_whole(place / f"round-{checkpoint.round:06}.safetensors", content)
    for old in checkpoints(directory)[KEPT:]:
        old.unlink(missing_ok=True)


def load_checkpoint(directory: Path) -> Checkpoint | None:
    """A run's last checkpoint that is sound; None if it was ended before its first round was full.

    Raises:
        ConfigError: there are checkpoints, and none of them is sound.
    """
    found = checkpoints(directory)
    for path in found:
        try:
            return read_checkpoint(path)
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            reason = f"{path.name} is damaged: {error}"
            logger.warning("%s", reason)
    if found:
        raise ConfigError("resume", directory, f"no checkpoint can be used; {reason}")
    return None


def read_checkpoint(path: Path) -> Checkpoint:
    """A checkpoint from its file.

    Raises:
        OSError, SafetensorError, KeyError, TypeError, ValueError: it is damaged.
    """
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    arrays = load(content)
    metadata = json.loads(content[8 : 8 + length])["__metadata__"]
    if metadata[DIGEST] != digest(metadata[FACTS], arrays):
        raise ValueError("its checksum does not fit")
    facts = json.loads(metadata[FACTS])
    model = ModelState(arrays, facts["last_accepted"], facts["train_sizes"])
    return Checkpoint(facts["round"], facts["seconds"], model, facts["patience"])


def checkpoints(directory: Path) -> list[Path]:
    """A run's checkpoints, the last first."""
    return sorted((directory / DIRECTORY).glob("round-*.safetensors"), reverse=True)


def forget_checkpoints(directory: Path) -> None:
    """Delete them: the run is completed."""
    shutil.rmtree(directory / DIRECTORY, ignore_errors=True)


def digest(facts: str, arrays: Weights) -> str:
    """A hash of all that a checkpoint says."""
    found = hashlib.sha256(facts.encode())
    for name in sorted(arrays):
        value = arrays[name]
        found.update(f"{name} {value.dtype} {value.shape}".encode())
        found.update(value.tobytes())
    return found.hexdigest()
