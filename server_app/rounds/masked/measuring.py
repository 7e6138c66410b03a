"""Batch norm measured with masks: the server gets the sum of the clients' moments."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from server_app.aggregation.strategies.base import strategy_of
from server_app.config.compatibility.masking import most_colluding, secure_threshold
from server_app.nodes.assignment import units_of_served
from server_app.nodes.failure import ABSENT
from server_app.rounds.context import RoundContext
from server_app.rounds.errors import NotMeasuredError
from server_app.rounds.masked.summing import MaskedSumming, new_scope, site_keys
from task.errors import ProtocolError
from task.models.layers.norm import batch_norm_layers
from task.protocol.masking.messages import MEASURE
from task.secure.coordinator import Coordinator, TooFewError
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
    experiment = context.experiment
    units = units_of_served(clients, context.sizes.train, context.connected())
    here = sorted(client for unit in units for client in unit.clients)
    scope = replace(
        new_scope(context, experiment.rounds, number, PURPOSE, weights),
        layer=fields["layer"],
        parameters=parameters_hash(context.worker.model, weights),
    )
    try:
        threshold = secure_threshold(experiment, len(here))
    except ValueError as error:
        raise NotMeasuredError(f"{fields['layer']} cannot be measured: {error}") from None
    coordinator = Coordinator(
        scope, threshold, most_colluding(experiment, len(here)),
        strategy_of(experiment).weighs_alike(),
        {client: context.sizes.train[client] for client in here}, site_keys(context, units),
    )  # fmt: skip
    context.worker.load(weights)
    layout = MomentsVector(batch_norm_layers(context.worker.model)[fields["layer"]])
    summing = MaskedSumming(context, scope, units, coordinator, threshold, layout.length, weights)
    reasons = summing.stages.reasons
    try:
        view = summing.prepare()
        summing.collect(MEASURE, view, fields)
        total = summing.unmask(view)
    except (TooFewError, ProtocolError) as error:
        first = next((f"; the first: {reason}" for _, reason in sorted(reasons.items())), "")
        raise NotMeasuredError(f"{fields['layer']} cannot be measured: {error}{first}") from None
    shares = weights_of(view.setup.counts, view.setup.weighs_alike, 1.0)
    weight = math.fsum(shares[client] for client in sorted(summing.survivors))
    mean, variance = layout.unpack(total, weight)
    missing = {client: ABSENT for client in clients if client not in here} | reasons
    return mean, variance, {client: missing[client] for client in sorted(missing)}
