"""A worker's reply to a training request, checked and added to the round's updates."""

from dataclasses import replace

from server_app.aggregation.accumulator import UpdateAccumulator
from server_app.aggregation.client_update import ClientUpdate
from server_app.nodes.assignment import WorkUnit
from server_app.nodes.failure import Failure
from task.errors import ProtocolError, TrainingError
from task.protocol.tensors import PackedTensors, check_counters, check_tensors
from task.protocol.training import SUM, TrainReply, TrainRow
from task.tensors import Tensors


def add_reply(
    unit: WorkUnit, reply: TrainReply | Failure, accumulator: UpdateAccumulator, summed: bool
) -> None:
    """Add a reply to the round's updates: each of the unit's clients counts or has a reason.

    Args:
        unit: what was asked.
        reply: the answer.
        accumulator: the round's updates.
        summed: whether the worker was asked for the sum of its clients.
    """
    updates = [ClientUpdate(client, unit.node.name) for client in unit.clients]
    if isinstance(reply, Failure):
        accumulator.refuse(updates, reply.reason)
    elif summed:
        _add_sum(updates, reply, accumulator)
    else:
        for update in updates:
            try:
                _add_model(update, reply, accumulator)
            except (ProtocolError, TrainingError) as error:
                accumulator.refuse([update], str(error))


def _add_model(update: ClientUpdate, reply: TrainReply, accumulator: UpdateAccumulator) -> None:
    """Add one client's model.

    Raises:
        ProtocolError, TrainingError: it cannot be used.
    """
    described = describe(update, reply.row(update.client), accumulator)
    sent, extra = _take_arrays(reply, str(update.client))
    weights = accumulator.read(sent, accumulator.before)
    check_tensors(weights, accumulator.before)
    check_counters(weights, accumulator.before)
    check_tensors(extra, accumulator.broadcast)
    if problem := accumulator.problem_with(extra):
        raise ProtocolError(problem)
    accumulator.add(described, weights, extra)


def describe(update: ClientUpdate, row: TrainRow, accumulator: UpdateAccumulator) -> ClientUpdate:
    """Return the update with what the client's row says.

    Raises:
        ProtocolError: the client failed, names another number of images than it has, or a loss
            that the method does not compute.
    """
    if row.reason:
        raise ProtocolError(row.reason)
    if row.examples != (expected := accumulator.examples[update.client]):
        raise ProtocolError(f"it reports {row.examples} training images and has {expected}")
    if unknown := sorted(row.losses.keys() - accumulator.terms):
        raise ProtocolError(
            f"it reports the loss {unknown[0]}, which is not in the method's `terms`"
        )
    return replace(
        update, device=row.device, examples=row.examples, seconds=row.seconds, losses=row.losses
    )


def _add_sum(
    updates: list[ClientUpdate], reply: TrainReply, accumulator: UpdateAccumulator
) -> None:
    """Add a worker's sum of its clients. If it cannot be used, none of them counts.

    A client that the worker calls trained and that is refused here is in the sum, too, so that the
    sum is refused with it.
    """
    trained, reason = [], ""
    for update in updates:
        try:
            trained.append(describe(update, reply.row(update.client), accumulator))
        except ProtocolError as error:
            accumulator.refuse([update], str(error))
            if not reply.reports_failure(update.client):
                reason = f"its worker's sum holds client {update.client}: {error}"
    if not trained:
        return
    try:
        if reason:
            raise ProtocolError(reason)
        weights, extra = _take_arrays(reply, SUM)
        check_tensors(weights, accumulator.before, summed=True)
        check_counters(weights, accumulator.before)
        check_tensors(extra, accumulator.broadcast, summed=True)
        accumulator.add_sum(trained, weights, extra)
    except (ProtocolError, TrainingError) as error:
        accumulator.refuse(trained, str(error))


def _take_arrays(reply: TrainReply, key: str) -> tuple[Tensors, Tensors]:
    """Return the weights, and what the method sent in addition. Their bytes leave the reply.

    Raises:
        ProtocolError: there are no weights, or they cannot be read.
    """
    if key not in reply.weights:
        raise ProtocolError("its reply holds no weights")
    return reply.weights.pop(key).unpack(), reply.extra.pop(key, PackedTensors()).unpack()
