"""The partition of a data set among many clients, computed once and kept beside its images.

The server and every worker need it. Among few clients each process computes it again, which takes
milliseconds. A partition among more than `task.data.federated.MOST_COMPUTED` clients is a file that
all map into their memory. The file's name depends on everything that the partition depends on, with
the code.
"""

import hashlib
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from task.config import LocalConfig
from task.data.dataset import ImageDataset
from task.data.federated import Partition
from task.data.image_store.store import DAMAGED, map_archive, store_root
from task.fingerprint import fingerprint_for
from task.machine.files import draft_of

KEPT = 20  # files; older ones are deleted
DIRECTORY = "partitions"

logger = logging.getLogger("univarfl")


def stored_partition(
    config: LocalConfig, dataset: ImageDataset, compute: Callable[[], Partition]
) -> Partition:
    """Return a partition from its file, which is written first if it is missing or damaged.

    If the file cannot be written, the partition stays in this process's memory.

    Args:
        config: the experiment.
        dataset: its data set.
        compute: returns the partition.

    Raises:
        ConfigError: there are too few images for so many clients.
    """
    path = path_of(config, dataset)
    found = read(path)
    if found is None:
        computed = compute()
        try:
            write(path, computed)
        except OSError as error:
            logger.debug("%s: the partition is not stored: %s", path, error)
        found = read(path) or computed
    return found


def path_of(config: LocalConfig, dataset: ImageDataset) -> Path:
    """Return the path of a partition's file."""
    code = fingerprint_for(config.model_dump_json())
    settings = [config.partition, config.num_clients, config.seed, dataset.content]
    key = json.dumps([*settings, code, np.__version__], sort_keys=True)
    return store_root() / DIRECTORY / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.npz"


def read(path: Path) -> Partition | None:
    """Memory-map a partition, or return None if its file is missing or damaged."""
    try:
        arrays = map_archive(path)
        os.utime(path)  # so that the partitions used last are kept
        return arrays["positions"], arrays["offsets"], arrays["note"].tobytes().decode()
    except DAMAGED:
        return None


def write(path: Path, partition: Partition) -> None:
    """Write a partition atomically, and delete all but the `KEPT` files that were used last.

    Raises:
        OSError: it cannot be written.
    """
    positions, offsets, note = partition
    text = np.frombuffer(note.encode(), dtype=np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    with draft_of(path) as draft, draft.open("wb") as file:
        np.savez(file, positions=positions, offsets=offsets, note=text)
    files = sorted(path.parent.glob("*.npz"), key=lambda each: each.stat().st_mtime, reverse=True)
    for old in files[KEPT:]:
        old.unlink(missing_ok=True)
