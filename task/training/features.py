"""Features of a frozen network, computed once for an image and kept on disk.

They are computed in batches of one size (`task.data.batches.BATCH`). So an image's features have
the same bits at every client and site, and in every process. Test images come first, then the
others, both in the order of the data set. Several processes share one file; each takes chunks that
nobody has finished.
"""

import hashlib
import importlib.metadata
import logging
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from task.config import LocalConfig
from task.data.augmentations.base import Augmentation
from task.data.batches import BATCH, DeviceImages, filled
from task.data.dataset import ImageDataset
from task.data.image_store.store import digest, store_root
from task.extensions import chosen
from task.machine.files import make_private, require_space
from task.models.layers.backbone import BackboneNetwork, encoded
from task.protocol.tensors import PackedTensors
from task.training.transfer import to_cpu

FORMAT = 1  # of the file; change it with the order or the batches
CHUNK = 4 * BATCH  # images of a piece of the file

logger = logging.getLogger("univarfl")


class FrozenFeatures(DeviceImages):
    """A data set whose images are given as features [n, d] of a frozen network.

    Args:
        config: the experiment, without augmentation.
        dataset: the images.
        network: with its frozen weights, on its device.
        keep_free: the megabytes that stay free on the disk.

    Raises:
        SpaceError: the disk has too little space.
        OSError: the file cannot be written.
    """

    def __init__(
        self, config: LocalConfig, dataset: ImageDataset, network: BackboneNetwork, keep_free: int
    ) -> None:
        device = next(network.parameters()).device
        super().__init__(dataset, device, config.mean_and_std)
        self._encoder = network.encoder.eval()
        order = np.concatenate([np.sort(dataset.test), np.sort(dataset.train)])
        self._order = order
        self._rank = torch.full((len(dataset.images),), -1)
        self._rank[torch.from_numpy(order)] = torch.arange(len(order))
        self._directory = store_root() / "features" / key_of(config, dataset, network)
        shape = (len(order), network.width)
        self._rows = opened(self._directory, shape, keep_free)
        self._keep_free = keep_free
        self._done: set[int] = set()

    def __getitem__(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return features [n, d], and labels [n]."""
        ranks = self._rank[positions.cpu()]
        self._complete({int(chunk) for chunk in (ranks // CHUNK).unique()})
        rows = torch.from_numpy(self._rows)[ranks]
        return rows.to(self.device), self.labels(positions)

    def augmented(
        self, positions: Tensor, changes: Tensor, augmentation: Augmentation
    ) -> tuple[Tensor, Tensor]:
        """Return features [n, d], and labels [n]; nothing is augmented."""
        return self[positions]

    def _complete(self, chunks: set[int]) -> None:
        """Compute the chunks that no process has finished, in an order of this process's own."""
        waiting = sorted(chunks - self._done)
        random.Random(os.getpid()).shuffle(waiting)  # noqa: S311  (it decides no result)
        for chunk in waiting:
            if not self._mark(chunk).exists():
                self._compute(chunk)
        self._done |= chunks

    def _mark(self, chunk: int) -> Path:
        return self._directory / f"{chunk}.done"

    @torch.no_grad()
    def _compute(self, chunk: int) -> None:
        first = chunk * CHUNK
        # The file is sparse: it takes space when it is written, and other files may do so before.
        require_space(self._directory, 4 * CHUNK * self._rows.shape[1], self._keep_free)
        for start in range(first, min(first + CHUNK, len(self._order)), BATCH):
            batch = self.index(self._order[start : start + BATCH])
            found = encoded(self._encoder, self.normalised(self.pixels(filled(batch))))
            self._rows[start : start + len(batch)] = found[: len(batch)].float().cpu().numpy()
        self._rows.flush()
        self._mark(chunk).touch()


def key_of(config: LocalConfig, dataset: ImageDataset, network: BackboneNetwork) -> str:
    """Return a name for features: a hash of all that they depend on."""
    weights = PackedTensors.of(to_cpu(network.encoder.state_dict())).data
    device = next(network.parameters()).device
    packages = chosen("model", config.model)  # their versions may stay as code changes
    versions = [
        torch.__version__, version_of(type(network.encoder).__module__),
        *(each.content() for each in packages),
    ]  # fmt: skip
    return digest(
        [
            FORMAT, hashlib.sha256(weights).hexdigest(), dataset.content, config.mean_and_std,
            config.model, config.runtime.precision, device.type, versions,
        ]
    )  # fmt: skip


def version_of(module: str) -> str:
    """Return the version of the package that a module belongs to; empty if it has none."""
    try:
        return importlib.metadata.version(module.partition(".")[0])
    except importlib.metadata.PackageNotFoundError:
        return ""


def opened(directory: Path, shape: tuple[int, int], keep_free: int) -> "np.memmap[Any, Any]":
    """Return the file of features, mapped into memory, which is created if it is not there.

    Args:
        directory: its directory.
        shape: the number of images, and d.
        keep_free: the megabytes that stay free on the disk.
    """
    path = directory / "features.npy"
    if not path.exists():
        require_space(store_root(), 4 * shape[0] * shape[1], keep_free)
        make_private(directory)  # features can resemble a patient's images
        partial = directory / f"{os.getpid()}.partial"
        np.lib.format.open_memmap(partial, mode="w+", dtype=np.float32, shape=shape).flush()
        try:
            os.link(partial, path)  # unlike a renaming, it replaces no file of another process
        except FileExistsError:
            logger.debug("another process has created %s", path)
        partial.unlink()
    return np.lib.format.open_memmap(path, mode="r+")
