"""``model.weights``: the file of weights that a run starts from, and its hash.

If the setting is used, the experiment's group ``model`` has the file's path and hash. The part of
the experiment that is sent to clients has neither, and only the server reads the file. With masks
it has the hash of the weights themselves, with which participants compare what they receive. If a
part of the network is frozen, clients have the hash and read the file as well, from their cache:
what is frozen is never sent.

``pretrained`` stands for the weights that a library publishes. The group ``model`` then also has
their ``pretrained``: name, source and the hash of the published file.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from task.errors import ConfigError

HASH = re.compile(r"[0-9a-f]{64}")
WEIGHTS, WEIGHTS_HASH = "weights", "weights_sha256"
PRETRAINED = "pretrained"
OF_WEIGHTS = (WEIGHTS, WEIGHTS_HASH, PRETRAINED)
KEY = f"model.{WEIGHTS}"
MODEL = "model.safetensors"  # the name in a run directory
EXPECTED = f"name a file of weights, such as runs/RUN/{MODEL}, or a run directory"


class GivenWeights(NamedTuple):
    """A file of weights, and the SHA-256 that it had when the experiment was composed."""

    path: Path
    sha256: str


def without_weights(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the network itself."""
    return {key: value for key, value in model.items() if key not in OF_WEIGHTS}


def cached(sha256: str) -> Path:
    """Return the place of a file of weights in this machine's cache.

    Raises:
        ConfigError: `sha256` is no hash, but perhaps a path.
    """
    if not isinstance(sha256, str) or not HASH.fullmatch(sha256):
        raise ConfigError(f"model.{WEIGHTS_HASH}", sha256, "must be a SHA-256 in hex digits")
    return weights_directory() / f"{sha256}.safetensors"


def weights_directory() -> Path:
    """Return the directory of the files of weights in this machine's cache."""
    from task.data.image_store.store import store_root  # noqa: PLC0415  (imports Pillow)

    return store_root() / "weights"


def given_weights(model: Mapping[str, Any]) -> GivenWeights | None:
    """Return the weights that the settings name; None if the run starts from its seed's."""
    return GivenWeights(Path(model[WEIGHTS]), model[WEIGHTS_HASH]) if WEIGHTS in model else None
