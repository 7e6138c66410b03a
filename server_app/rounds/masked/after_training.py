"""One masked sum over all clients, outside a round of training."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from server_app.config.compatibility.masking import most_colluding, secure_threshold
from server_app.nodes.assignment import units_of_served
from server_app.nodes.failure import ABSENT
from server_app.rounds.context import RoundContext
from server_app.rounds.masked.summing import MaskedSumming, site_keys
from task.errors import ProtocolError
from task.protocol.envelope import Kind
from task.protocol.masking.messages import ScoreReply
from task.secure.coordinator import Coordinator, TooFewError
from task.secure.primitives.mask_stream import Vector
from task.secure.transcript import Scope, Setup
from task.tensors import Tensors


class NoSumError(Exception):
    """There is no sum; the text says why."""


class Wanted(NamedTuple):
    """What is added up.

    Attributes:
        kind: the kind of message that asks for reports.
        fields: what such a request has besides the fields of every masked one.
        length: of the sum, in numbers.
        alike: whether the clients' reports weigh the same.
    """

    kind: Kind[Any, ScoreReply]
    fields: dict[str, Any]
    length: int
    alike: bool


class Total(NamedTuple):
    """A sum.

    Attributes:
        vector: the sum.
        setup: what the participants were shown of each other.
        survivors: those whose reports it holds, ascending.
        missing: why other clients are not in it, ascending by client.
    """

    vector: Vector
    setup: Setup
    survivors: list[int]
    missing: dict[int, str]


def masked_total(
    context: RoundContext, scope: Scope, clients: Sequence[int], weights: Tensors, wanted: Wanted
) -> Total:
    """Have clients report something of a model with masks, and return the sum.

    Args:
        context: the run, in its last round or after it.
        scope: the attempt.
        clients: who is asked.
        weights: the model.
        wanted: what they report.

    Raises:
        NoSumError: fewer than the threshold are in the sum, or other clients than in earlier sums.
    """
    experiment = context.experiment
    units = units_of_served(clients, context.sizes.train, context.connected())
    here = sorted(client for unit in units for client in unit.clients)
    try:
        threshold = secure_threshold(experiment, len(here))
    except ValueError as error:
        raise NoSumError(str(error)) from None
    coordinator = Coordinator(
        scope, threshold, most_colluding(experiment, len(here)), wanted.alike,
        {client: context.sizes.train[client] for client in here}, site_keys(context, units),
    )  # fmt: skip
    summing = MaskedSumming(context, scope, units, coordinator, threshold, wanted.length, weights)
    reasons = summing.stages.reasons
    try:
        view = summing.prepare()
        summing.collect(wanted.kind, view, wanted.fields)
        vector = summing.unmask(view)
    except (TooFewError, ProtocolError) as error:
        first = next((f"; the first: {reason}" for _, reason in sorted(reasons.items())), "")
        raise NoSumError(f"{error}{first}") from None
    missing = {client: ABSENT for client in clients if client not in here} | reasons
    return Total(vector, view.setup, sorted(summing.survivors), dict(sorted(missing.items())))
