"""Asking every client for the moments of one layer's inputs after another.

The rounds average the clients' running statistics. The average is wrong in two ways: each client
measured under weights of its own, and the variance between the clients' means is missing.

For each layer of batch norm, in the order of the forward pass, each client sends the mean and the
variance of the layer's inputs, by channel, under the final weights in eval mode. The server
combines them into the mean and variance of all inputs in one place, and stores them as the layer's
statistics. The next layer is measured with them. Weights do not change.
Source: a model whose weights are a mean needs new statistics, as in Izmailov et al., "Averaging
Weights Leads to Wider Optima and Better Generalization", UAI 2018, section 3.2, and in PyTorch's
``torch.optim.swa_utils.update_bn``. These pass over all data in training mode, which needs the data
in one place.
Upload: two float64 numbers for each channel, one exchange for each layer. Client state: none.

Our choices:

* Images are training images, without augmentation. The variance is that of all inputs (divided by
  their number), while PyTorch's running variance is unbiased.
* A client counts by its number of training images, whatever ``strategy.weighting`` is, also if it
  measures some of them only. In masked sums ``strategy.weighting`` decides.
* A client that fails is left out of this layer and of all later ones; events.csv names it.
* A run that is resumed keeps the layers that it has measured, because a site describes a layer
  under one set of statistics only. A client that failed before may answer for the others.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from safetensors import SafetensorError
from torch import Tensor

from server_app.aggregation.weights import Weights, from_tensors, to_tensors
from server_app.nodes.failure import ABSENT, Failure, usable
from server_app.rounds.context import RoundContext
from server_app.rounds.ending.asking import ask_clients, check_quorum, wait_for_quorum
from server_app.rounds.errors import NotMeasuredError
from server_app.runs.checkpoint import DIRECTORY, read_hashed, write_hashed
from task.errors import ProtocolError
from task.machine.files import digest
from task.models.layers.norm import layers_in_order
from task.protocol.after.moments import MOMENTS, MomentsReply, check_moments, moments_bytes
from task.protocol.tensors import PackedTensors
from task.registry import named
from task.tensors import Tensors
from task.training.after.moments import PooledMoments

FILE = "batch_norm.safetensors"
LARGEST = 2.0**20  # of a statistic that is stored; masked sums take no model with a larger number
STAGE = "model.statistics=exact"
MASKED = "server_app.rounds.masked.measuring:masked_moments"

logger = logging.getLogger("univarfl")


class Measuring:
    """The measurement of all layers of batch norm.

    Args:
        context: the run, after its last round.
        wanted: the clients that should answer, ascending.
        images: the largest number of images of a client that are measured.
        silent: by client, why it is not asked.

    Attributes:
        layers: the names of the layers, in the order of the forward pass.
        clients: those that have answered for every layer since the stage began or was resumed,
            ascending.
        missing: by client, why it has not.
    """

    def __init__(
        self,
        context: RoundContext,
        wanted: Sequence[int],
        images: int,
        silent: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        self._context, self._wanted, self._images = context, wanted, images
        worker = context.worker
        _, size, _, channels = worker.data.dataset.images.shape
        worker.load(context.model.weights)
        self.layers = layers_in_order(worker.model, channels, size)
        wait_for_quorum(context, wanted)
        sizes = context.sizes.train
        self.clients = [client for client in wanted if sizes[client]]
        self.missing: dict[int, str] = {}
        self._done = MeasuredLayers(context.directory, context.model.weights)
        absent = {client: ABSENT for client in wanted if not sizes[client]}
        self._leave_out({**absent, **silent})

    def measure(self) -> Tensors:
        """Return the global weights with the new statistics; a resumed stage keeps what it has.

        Raises:
            RunFailedError: fewer clients than the quorum have answered for every layer.
            NotMeasuredError: a layer's statistics are too large, or cannot be added up with masks.
        """
        weights = dict(self._context.model.weights) | to_tensors(self._done.statistics)
        for number, layer in enumerate(self.layers, start=1):
            mean, variance = f"{layer}.running_mean", f"{layer}.running_var"
            if mean in self._done.statistics:
                continue
            found = self._moments(number, layer, weights)
            weights |= {
                name: value.to(weights[name].dtype)
                for name, value in zip((mean, variance), found, strict=True)
            }
            new = {name: weights[name] for name in (mean, variance)}
            if not all(bool((value.abs() < LARGEST).all()) for value in new.values()):
                raise NotMeasuredError(f"the statistics of {layer} are too large, or not finite")
            self._done.keep(from_tensors(new), self.missing)
        return weights

    def facts(self) -> dict[str, Any]:
        """Return the entries of the record: the number of clients, those missing, and of layers."""
        missing = sorted((self._done.missing | self.missing).items())
        return {
            "clients": len(self._wanted) - len(missing),
            "missing": {str(client): reason for client, reason in missing},
            "layers": len(self.layers),
            "images": self._images,
        }

    def _moments(self, number: int, layer: str, weights: Tensors) -> tuple[Tensor, Tensor]:
        """Return the mean and variance of a layer's inputs over the images of all clients."""
        channels = weights[f"{layer}.running_mean"].numel()
        fields = {"layer": layer, "channels": channels, "images": self._images}
        if self._context.experiment.secure.masked:
            mean, variance, missing = named(MASKED)(
                self._context, number, self.clients, weights, fields
            )
        else:
            mean, variance, missing = self._pooled({**fields, "weights": PackedTensors.of(weights)})
        self._leave_out(missing)
        check_quorum(self._context, self._wanted, self.missing, STAGE, f"measured {layer}")
        return mean, variance

    def _pooled(self, fields: dict[str, Any]) -> tuple[Tensor, Tensor, dict[int, str]]:
        """Return mean and variance from those of each client, and why others sent none."""
        context, pooled, missing = self._context, PooledMoments(), {}
        channels = fields["channels"]
        block = context.clients_per_reply(moments_bytes(channels))
        for start in range(0, len(self.clients), block):
            asked = self.clients[start : start + block]
            replies = ask_clients(
                context, MOMENTS, asked, context.sizes.train, lambda _: fields, "batch norm"
            )
            for client in asked:
                try:
                    mean, variance = read(replies[client], client, channels)
                except ProtocolError as error:
                    missing[client] = str(error)
                else:
                    pooled.add(context.sizes.train[client], mean, variance)
        return pooled.mean, pooled.variance, missing

    def _leave_out(self, missing: dict[int, str]) -> None:
        """Record clients that do not count any more."""
        self.missing |= missing
        self.clients = [client for client in self.clients if client not in missing]
        for client, reason in sorted(missing.items()):
            self._context.note_client(client, f"batch norm not measured: {reason}")


def read(reply: MomentsReply | Failure, client: int, channels: int) -> Sequence[Tensor]:
    """Return a client's mean and variance of each channel.

    Raises:
        ProtocolError: it has none that can be used.
    """
    return check_moments(usable(reply).of(client), channels)


class MeasuredLayers:
    """The new statistics of the layers that were measured, of one model.

    A site describes a layer only under one set of statistics of the layers before it. So a resumed
    stage must send those that it sent before, also if other sites answer now.

    Args:
        directory: the run's; the file is deleted with the checkpoints.
        model: the weights after the last round, on the CPU.

    Attributes:
        statistics: the running mean and variance of each measured layer, by the model's names.
        missing: by client, why it has not answered for one of these layers.
    """

    def __init__(self, directory: Path, model: Tensors) -> None:
        self._path = directory / DIRECTORY / FILE
        self._model = digest("", from_tensors(model))
        self.statistics: Weights = {}
        self.missing: dict[int, str] = {}
        if not self._path.exists():
            return
        try:
            self._read()
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            logger.warning("%s is damaged, and all layers are measured: %s", self._path, error)

    def keep(self, statistics: Weights, missing: Mapping[int, str]) -> None:
        """Add the statistics of a layer.

        Args:
            statistics: by the model's names.
            missing: by client, why it has not answered.

        Raises:
            OSError: they cannot be written.
        """
        self.statistics |= statistics
        self.missing |= missing
        facts = json.dumps({"model": self._model, "missing": sorted(self.missing.items())})
        self._path.parent.mkdir(exist_ok=True)
        write_hashed(self._path, facts, self.statistics)

    def _read(self) -> None:
        arrays, text = read_hashed(self._path)
        facts = json.loads(text)
        if facts["model"] == self._model:
            self.statistics, self.missing = arrays, dict(facts["missing"])
