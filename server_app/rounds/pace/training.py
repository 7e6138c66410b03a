"""Training requests, and the accumulator of their replies."""

from collections.abc import Sequence
from typing import Any

from server_app.aggregation.accumulator import UpdateAccumulator
from server_app.aggregation.client_update import ClientUpdate
from server_app.aggregation.strategies.base import strategy_of
from server_app.nodes.assignment import WorkUnit
from server_app.nodes.failure import ABSENT
from server_app.nodes.messages import AddressedRequest
from server_app.nodes.registration import NodeInfo
from server_app.rounds.context import RoundContext
from task.protocol.tensors import PackedTensors
from task.protocol.training import TRAIN, TrainRequest


def empty_accumulator(
    context: RoundContext,
    sampled: Sequence[int],
    keep: bool,
    before: UpdateAccumulator | None = None,
) -> UpdateAccumulator:
    """Return an accumulator for the sampled clients whose number of images is known.

    Args:
        context: the run.
        sampled: the round's clients.
        keep: whether each client's model is kept.
        before: the earlier attempt's accumulator, if there was one. Its reasons stay, and none of
            its updates counts.
    """
    sites, sizes = context.sites, context.sizes.train
    known = [client for client in sampled if not sites or sizes[client]]
    accumulator = context.model.accumulator(known, keep)
    absent = [ClientUpdate(client, sites[client] if sites else "") for client in sampled]
    accumulator.refuse(absent, f"absent: {ABSENT}")
    if before is not None:
        refused = {c: update for c, update in before.updates.items() if not update.accepted}
        accumulator.updates.update(refused)
    return accumulator


def clients_per_message(context: RoundContext, adds_up: bool, reply_bytes: int) -> int:
    """Return how many clients may share a reply; any number if only their sum is sent."""
    if adds_up:
        return context.experiment.num_clients
    return context.clients_per_reply(reply_bytes)


def sends_sum(adds_up: bool, node: NodeInfo) -> bool:
    """Return whether a worker adds up its clients. A site's model is checked by itself."""
    return adds_up and not node.site


def train_requests(
    context: RoundContext,
    server_round: int,
    attempt: int,
    units: Sequence[WorkUnit],
    accumulator: UpdateAccumulator,
    weights: PackedTensors,
) -> list[AddressedRequest[TrainRequest]]:
    """Return the request for each work unit.

    Args:
        context: the run.
        server_round: the round whose generators the clients draw from.
        attempt: the attempt at it.
        units: whom to ask.
        accumulator: takes the replies.
        weights: what the clients start from.
    """
    strategy, broadcast = strategy_of(context.experiment), PackedTensors.of(accumulator.broadcast)

    def fields(unit: WorkUnit) -> dict[str, Any]:
        summed = sends_sum(accumulator.adds_up, unit.node)
        return {
            "accepted": context.accepted(unit.clients),
            "shares": [accumulator.shares[client] for client in unit.clients] if summed else [],
            "max_norm": strategy.client_clipping_norm(),
            "weights": weights,
            "broadcast": broadcast,
        }

    return context.addressed_requests(TRAIN, units, server_round, fields, attempt)


def filter_updates(context: RoundContext, accumulator: UpdateAccumulator) -> None:
    """Have the guard decide on the updates that are held, and record those that it scaled down."""
    for scaled in accumulator.apply_filter():
        context.note("", f"client {scaled.client}: scaled by {scaled.scale:.3g}: {scaled.reason}")
