"""Each client's exact sums, kept in a run's directory so that the client can be forgotten.

They are second moments of the client's features, so only the owner of the directory may read them.
"""

import json
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError
from torch import Tensor

from server_app.aggregation.weights import as_bytes
from server_app.runs.checkpoint import FACTS, read_hashed
from task.errors import ConfigError, ProtocolError, system_reason
from task.machine.files import DIGEST, digest, draft_of, make_private, write_secret
from task.protocol.after.sums import MOST_IMAGES, SUMS, Form

DIRECTORY, SUFFIX = "sums", ".safetensors"


class KeptSum(NamedTuple):
    """The sums of one client.

    Attributes:
        images: the number of its images, at least those that are in the sums.
        vector: the sums, [length] int64.
    """

    images: int
    vector: Tensor


def keep_sum(directory: Path, client: str, images: int, vector: Tensor) -> None:
    """Write a client's sums to a file that only its owner can read.

    Args:
        directory: the run's.
        client: the name of the client's site, or its number.
        images: the number of its images.
        vector: its sums, [length] int64.

    Raises:
        OSError: the file cannot be written.
    """
    facts, arrays = json.dumps({"images": images}), {SUMS: vector.numpy()}
    content = as_bytes(arrays, {FACTS: facts, DIGEST: digest(facts, arrays)})
    path = path_of(directory, client)
    make_private(path.parent)
    with draft_of(path) as draft:
        write_secret(draft, content)


def kept_clients(directory: Path) -> list[str]:
    """Return the clients whose sums a run has kept."""
    found = (directory / DIRECTORY).glob(f"*{SUFFIX}")
    return sorted(path.name.removesuffix(SUFFIX) for path in found)


def read_sum(directory: Path, client: str, form: Form) -> KeptSum:
    """Return the sums of a client that `kept_clients` names.

    Raises:
        ConfigError: they are damaged, or of other features.
    """
    path = path_of(directory, client)
    try:
        arrays, facts = read_hashed(path)
        images = int(json.loads(facts)["images"])
        if not 0 <= images <= MOST_IMAGES:
            raise ValueError(f"{images} images are no number that a sum has")
        return KeptSum(images, form.check(torch.from_numpy(arrays[SUMS]), images))
    except (KeyError, ProtocolError, SafetensorError, TypeError, ValueError) as error:
        reason = f"is damaged, or of another network: {error}"
    except OSError as error:
        reason = f"cannot be read: {system_reason(error)}"
    raise ConfigError("sums", path, f"{reason}; make the run again with sums.keep=true")


def delete_sums(directory: Path, client: str = "*") -> None:
    """Delete the sums of all clients of a run, or of one; also drafts of a killed process.

    Raises:
        OSError: they cannot be deleted.
    """
    for path in (directory / DIRECTORY).glob(f"{client}{SUFFIX}*"):
        path.unlink(missing_ok=True)


def path_of(directory: Path, client: str) -> Path:
    """Return the file of a client's sums."""
    return directory / DIRECTORY / f"{client}{SUFFIX}"
