"""Batch norm measured with masks: the server gets the sum of the clients' moments."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from server_app.aggregation.strategies.base import strategy_of
from server_app.rounds.context import RoundContext
from server_app.rounds.errors import NotMeasuredError
from server_app.rounds.masked.after_training import NoSumError, Wanted, masked_total
from server_app.rounds.masked.summing import new_scope
from task.models.layers.norm import batch_norm_layers
from task.protocol.masking.messages import MEASURE
from task.secure.rules.threshold import weights_of
from task.secure.transcript import parameters_hash
from task.secure.vectors.moments_vector import MomentsVector
from task.tensors import Tensors

PURPOSE = "measure"


def masked_moments(
    context: RoundContext,
    number: int,
    clients: Sequence[int],
    weights: Tensors,
    fields: dict[str, Any],
) -> tuple[Tensor, Tensor, dict[int, str]]:
    """Return mean and variance of a layer's inputs over all images, and who is not in them.

    Args:
        context: the run, after its last round.
        number: the layer's number, from 1; each is an attempt of its own.
        clients: who is asked.
        weights: the global weights, with the statistics of the layers before.
        fields: ``layer``, ``channels`` and ``images`` of the request.

    Raises:
        NotMeasuredError: fewer than the threshold are in the sum, or other clients than in the
            sums of the layers before.
    """
    experiment, layer = context.experiment, fields["layer"]
    scope = replace(
        new_scope(context, experiment.rounds, number, PURPOSE, weights),
        layer=layer,
        parameters=parameters_hash(context.worker.model, weights),
    )
    context.worker.load(weights)
    layout = MomentsVector(batch_norm_layers(context.worker.model)[layer])
    alike = strategy_of(experiment).weighs_alike()
    wanted = Wanted(MEASURE, fields, layout.length, alike)
    try:
        total = masked_total(context, scope, clients, weights, wanted)
    except NoSumError as error:
        raise NotMeasuredError(f"{layer} cannot be measured: {error}") from None
    shares = weights_of(total.setup.counts, total.setup.weighs_alike, 1.0)
    weight = math.fsum(shares[client] for client in total.survivors)
    return *layout.unpack(total.vector, weight), total.missing
