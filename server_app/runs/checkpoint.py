"""Checkpoints: the state of a run after each round; the last two are kept.

Beside them are the clients' models of the last round, until the stage after training is completed.
"""

import json
import logging
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from server_app.aggregation.weights import Readable, Weights, as_bytes, from_file
from task.errors import ConfigError
from task.machine.files import DIGEST, Mark, digest, round_files, write_whole

DIRECTORY, KEPT = "checkpoints", 2
LAST_MODELS = f"{DIRECTORY}/last-models.safetensors"  # deleted with the checkpoints
FACTS = "facts"

logger = logging.getLogger("univarfl")


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run after a round.

    Attributes:
        round: the last completed round.
        seconds: the duration of the rounds so far.
        model: the state of the global model (`GlobalModel.state`).
        failure_policy: the state of the failure policy (`FailurePolicy.state`).
        pace: the state of the clock and the running jobs (`Pace.state`).
        files: the marks of the files that a resumed run builds on, by path in the run directory.
        end: what decides whether the run ends early (`RunEnd.state`).
    """

    round: int
    seconds: float
    model: "ModelState"
    failure_policy: dict[str, Any]
    pace: Mapping[str, Any]
    files: Mapping[str, Mark]
    end: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelState:
    """The state of a global model between rounds.

    Attributes:
        arrays: the weights and the arrays of strategy and method, by kind and name.
        last_accepted: by client, the round of its last accepted update; without the clients that
            have none.
        site_sizes: by client, the number of training images of its site at the last update;
            without sites that had not come. A simulation has none.
        known: the sum of all clients' weights at the last update.
    """

    arrays: Weights
    last_accepted: Mapping[int, int]
    site_sizes: Mapping[int, int]
    known: float


def save_checkpoint(directory: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint atomically, and delete all but the last two.

    Raises:
        OSError: it cannot be written; the earlier ones are unchanged.
    """
    facts = json.dumps(
        {
            "round": checkpoint.round,
            "seconds": checkpoint.seconds,
            "last_accepted": sorted(checkpoint.model.last_accepted.items()),
            "site_sizes": sorted(checkpoint.model.site_sizes.items()),
            "known": checkpoint.model.known,
            "failure_policy": checkpoint.failure_policy,
            "pace": dict(checkpoint.pace),
            "files": dict(checkpoint.files),
            "end": dict(checkpoint.end),
        }
    )
    place = directory / DIRECTORY
    place.mkdir(exist_ok=True)
    write_hashed(place / f"round-{checkpoint.round:06}.safetensors", facts, checkpoint.model.arrays)
    for old in checkpoints(directory)[KEPT:]:
        old.unlink(missing_ok=True)


def load_checkpoint(directory: Path) -> Checkpoint | None:
    """Return a run's last undamaged checkpoint; None if it has completed no round.

    Raises:
        ConfigError: all its checkpoints are damaged.
    """
    found = checkpoints(directory)
    for path in found:
        try:
            return read_checkpoint(path)
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            reason = f"{path.name} is damaged: {error}"
            logger.warning("%s", reason)
    if found:
        cure = "delete that directory and start a new run"
        raise ConfigError("resume", directory, f"no checkpoint can be used; {reason}; {cure}")
    return None


def read_checkpoint(path: Path) -> Checkpoint:
    """Return the checkpoint in a file.

    Raises:
        OSError, SafetensorError, KeyError, TypeError, ValueError: it is damaged.
    """
    arrays, text = read_hashed(path)
    facts = json.loads(text)
    last_accepted, site_sizes = dict(facts["last_accepted"]), dict(facts["site_sizes"])
    model = ModelState(arrays, last_accepted, site_sizes, facts["known"])
    policy, pace = facts["failure_policy"], facts["pace"]
    files = {name: (length, found) for name, (length, found) in facts["files"].items()}
    end = facts["end"]
    return Checkpoint(facts["round"], facts["seconds"], model, policy, pace, files, end)


def save_last_models(directory: Path, models: Mapping[int, Readable]) -> None:
    """Write the clients' models of the last round, by client, for the stage after training.

    Raises:
        OSError: they cannot be written.
    """
    arrays = {
        f"{client}/{name}": value
        for client, weights in models.items()
        for name, value in weights.items()
    }
    (directory / DIRECTORY).mkdir(exist_ok=True)
    write_hashed(directory / LAST_MODELS, "", arrays)


def load_last_models(directory: Path) -> dict[int, Weights]:
    """Return the models that `save_last_models` wrote.

    Raises:
        ConfigError: the file is missing or damaged.
    """
    path = directory / LAST_MODELS
    try:
        arrays, _ = read_hashed(path)
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        allowed = f"{path.name} is missing or damaged ({error}); start a new run"
        raise ConfigError("resume", directory, allowed) from None
    models: dict[int, Weights] = {}
    for key, value in arrays.items():
        client, _, name = key.partition("/")
        models.setdefault(int(client), {})[name] = value
    return dict(sorted(models.items()))


def write_hashed(path: Path, facts: str, arrays: Weights) -> None:
    """Write facts and arrays, with a hash of both, as a whole file.

    Raises:
        OSError: they cannot be written; the file is unchanged.
    """
    write_whole(path, as_bytes(arrays, {FACTS: facts, DIGEST: digest(facts, arrays)}))


def read_hashed(path: Path) -> tuple[Weights, str]:
    """Return the arrays and the facts that `write_hashed` wrote.

    Raises:
        OSError, SafetensorError, KeyError, ValueError: the file is damaged.
    """
    arrays, metadata = from_file(path)
    if metadata[DIGEST] != digest(metadata[FACTS], arrays):
        raise ValueError("its checksum is wrong")
    return arrays, metadata[FACTS]


def checkpoints(directory: Path) -> list[Path]:
    """Return the files of a run's checkpoints, the last first."""
    return list(round_files(directory / DIRECTORY).values())[::-1]


def forget_checkpoints(directory: Path) -> None:
    """Delete the checkpoints of a completed run."""
    shutil.rmtree(directory / DIRECTORY, ignore_errors=True)
