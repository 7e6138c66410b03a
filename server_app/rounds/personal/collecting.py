"""The clients' parts of the model after the last round: saved, or kept by the sites."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from server_app.nodes.assignment import WorkUnit, assign_clients, served_clients
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
    """Write the part of the model of each client that has trained; ask sites to keep theirs.

    A site sends nothing. In a simulation with masks, which hide what belongs to one client, nothing
    is written.

    Args:
        context: the run, after its last round.
        recorder: the run's; it has written the shared part.

    Raises:
        OSError: a file cannot be written.
    """
    if not context.worker.personal:
        return
    clients = with_a_model(context, range(context.experiment.num_clients))
    if context.sites:
        have_sites_keep_their_parts(context, recorder, clients)
    elif not context.experiment.secure.masked:
        write_client_parts(context, recorder, clients)


def write_client_parts(context: RoundContext, recorder: Recorder, clients: Sequence[int]) -> None:
    """Write the parts of a simulation's clients.

    They are asked in blocks, so that the server holds few parts at a time. A client whose part is
    lost has no file, and is named in the record.

    Raises:
        OSError: a file cannot be written.
    """
    limit = context.experiment.federation.message_megabytes * MEGABYTE
    block = max(1, int(limit // context.worker.personal.size))
    saved = 0
    for start in range(0, len(clients), block):
        saved += save_block(context, recorder, clients[start : start + block])
    recorder.update(client_parts=saved)


def have_sites_keep_their_parts(
    context: RoundContext, recorder: Recorder, clients: Sequence[int]
) -> None:
    """Ask the connected sites to keep their parts; those that fail are named in the record."""
    here = served_clients(clients, context.nodes.connected())
    for client, reply in ask(context, recorder, here).items():
        try:
            if isinstance(reply, Failure):
                raise ProtocolError(reply.reason)
            reply.check_succeeded(client)
        except ProtocolError as error:
            site = context.sites[client]
            context.note(site, f"it did not keep its part of the model: {error}")


def save_block(context: RoundContext, recorder: Recorder, clients: Sequence[int]) -> int:
    """Ask some clients at once; return how many parts were written."""
    saved = 0
    for client, reply in ask(context, recorder, clients).items():
        try:
            part = read_part(context, client, reply)
        except ProtocolError as error:
            context.note("", f"client {client}: its part of the model is not saved: {error}")
        else:
            model = recorder.summary["model_sha256"]
            save_client_part(recorder.directory, client, part, model)
            saved += 1
    return saved


def ask(
    context: RoundContext, recorder: Recorder, clients: Sequence[int]
) -> Mapping[int, PersonalReply | Failure]:
    """Ask clients, which connected nodes serve, for their parts; return each one's reply."""
    nodes = context.nodes.connected()
    units = assign_clients(clients, context.sizes.validation, nodes, max(1, len(clients)))

    def fields(unit: WorkUnit) -> dict[str, Any]:
        return {
            "model": recorder.summary["model_sha256"], "part_bytes": context.worker.personal.size,
            **stateful_fields(context, unit),
        }  # fmt: skip

    letters = context.letters(PERSONAL, units, context.experiment.rounds, fields)
    replies = context.exchange(PERSONAL, letters).replies()
    reply_to = {
        client: reply for unit, reply in zip(units, replies, strict=True) for client in unit.clients
    }
    return {client: reply_to[client] for client in clients}


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
