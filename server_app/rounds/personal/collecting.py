"""Asking the clients of a simulation for their parts of the model, and writing them."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from server_app.aggregation.weights import from_tensors
from server_app.nodes.assignment import WorkUnit, assign_clients
from server_app.nodes.messages import Failure
from server_app.rounds.context import RoundContext
from server_app.rounds.evaluation import stateful_fields, with_a_model
from server_app.runs.client_parts import save_client_part
from server_app.runs.recorder import Recorder
from task.methods.base import Tensors
from task.protocol.errors import ProtocolError
from task.protocol.messages import PERSONAL, PersonalReply
from task.protocol.tensors import check_tensors

MEGABYTE = 1e6

logger = logging.getLogger("univarfl")


def save_client_parts(context: RoundContext, recorder: Recorder) -> None:
    """Write the part of the model of each client that has trained, in a simulation.

    Clients are asked in blocks, so that the server holds few parts at a time. A client whose part
    is lost has no file, and is named in the record. The part of a site never leaves it, and masks
    hide what belongs to one client; then nothing is written.

    Args:
        context: the run, after its last round.
        recorder: the run's; it has written the shared part.

    Raises:
        OSError: a file cannot be written.
    """
    if not context.worker.personal or context.sites or context.experiment.secure.masked:
        return
    clients = with_a_model(context, range(context.experiment.num_clients))
    limit = context.experiment.federation.message_megabytes * MEGABYTE
    block = max(1, int(limit // context.worker.personal.size))
    saved = 0
    for start in range(0, len(clients), block):
        saved += save_block(context, recorder, clients[start : start + block])
    recorder.update(client_parts=saved)


def save_block(context: RoundContext, recorder: Recorder, clients: Sequence[int]) -> int:
    """Ask some clients at once; return how many parts were written."""
    units = assign_clients(
        clients, context.sizes.validation, context.nodes.connected(), len(clients)
    )

    def fields(unit: WorkUnit) -> dict[str, Any]:
        return {"part_bytes": context.worker.personal.size, **stateful_fields(context, unit)}

    letters = context.letters(PERSONAL, units, context.experiment.rounds, fields)
    replies = context.exchange(PERSONAL, letters).replies()
    reply_to: Mapping[int, PersonalReply | Failure] = {
        client: reply for unit, reply in zip(units, replies, strict=True) for client in unit.clients
    }
    saved = 0
    for client in clients:
        try:
            part = read_part(context, client, reply_to[client])
        except ProtocolError as error:
            context.note("", f"client {client}: its part of the model is not saved: {error}")
        else:
            model = recorder.summary["model_sha256"]
            save_client_part(recorder.directory, client, from_tensors(part), model)
            saved += 1
    return saved


def read_part(context: RoundContext, client: int, reply: PersonalReply | Failure) -> Tensors:
    """Return a client's part.

    Raises:
        ProtocolError: there is none that can be used.
    """
    if isinstance(reply, Failure):
        raise ProtocolError(reply.reason)
    part = reply.of(client)
    check_tensors(part, context.worker.personal.initial)
    return part
