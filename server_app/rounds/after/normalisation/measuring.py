"""Asking every client for the moments of one layer's inputs after another."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from server_app.aggregation.weights import from_tensors, to_tensors
from server_app.nodes.failure import ABSENT, Failure, usable
from server_app.rounds.after.normalisation.measured_layers import MeasuredLayers
from server_app.rounds.context import RoundContext
from server_app.rounds.ending.asking import ask_clients, clients_with_images
from server_app.rounds.ending.quorum import check_quorum, wait_for_quorum
from task.errors import ProtocolError
from task.models.layers.norm import layers_in_order
from task.protocol.after.moments import MOMENTS, MomentsReply, check_moments, moments_bytes
from task.protocol.tensors import PackedTensors
from task.tensors import Tensors
from task.training.after.moments import PooledMoments


class Measuring:
    """The measurement of all layers of batch norm.

    Args:
        context: the run, after its last round.

    Attributes:
        layers: the names of the layers, in the order of the forward pass.
        clients: those that have answered for every layer since the stage began or was resumed,
            ascending.
        missing: by client, why it has not.
    """

    def __init__(self, context: RoundContext) -> None:
        self._context = context
        worker = context.worker
        _, size, _, channels = worker.data.dataset.images.shape
        worker.load(context.model.weights)
        self.layers = layers_in_order(worker.model, channels, size)
        self._wanted = clients_with_images(context)
        wait_for_quorum(context, self._wanted)
        sizes = context.sizes.train
        self.clients = [client for client in self._wanted if sizes[client]]
        self.missing: dict[int, str] = {}
        self._done = MeasuredLayers(context.directory, context.model.weights)
        self._leave_out({client: ABSENT for client in self._wanted if not sizes[client]})

    def measure(self) -> Tensors:
        """Return the global weights with the new statistics; a resumed stage keeps what it has.

        Raises:
            RunFailedError: fewer clients than the quorum have answered for every layer.
        """
        weights = dict(self._context.model.weights) | to_tensors(self._done.statistics)
        for layer in self.layers:
            mean, variance = f"{layer}.running_mean", f"{layer}.running_var"
            if mean in self._done.statistics:
                continue
            pooled = self._pooled(layer, weights, weights[mean].numel())
            weights[mean] = pooled.mean.to(weights[mean].dtype)
            weights[variance] = pooled.variance.to(weights[variance].dtype)
            new = {name: weights[name] for name in (mean, variance)}
            self._done.keep(from_tensors(new), self.missing)
        return weights

    def facts(self) -> dict[str, Any]:
        """Return what the record says: how many clients answered for every layer, and who not."""
        missing = sorted((self._done.missing | self.missing).items())
        return {
            "clients": len(self._wanted) - len(missing),
            "missing": {str(client): reason for client, reason in missing},
            "layers": len(self.layers),
        }

    def _pooled(self, layer: str, weights: Tensors, channels: int) -> PooledMoments:
        """Return the moments of a layer's inputs over the images of all clients."""
        context = self._context
        fields = {"layer": layer, "channels": channels, "weights": PackedTensors.of(weights)}
        pooled = PooledMoments()
        missing: dict[int, str] = {}
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
        self._leave_out(missing)
        check_quorum(context, self._wanted, self.missing, f"measured {layer}")
        return pooled

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
