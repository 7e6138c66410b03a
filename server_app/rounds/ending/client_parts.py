"""The clients' parts of the model after the last round: saved, or kept by the sites."""

from collections.abc import Mapping, Sequence
from typing import Any

from server_app.nodes.assignment import WorkUnit
from server_app.nodes.failure import Failure, usable
from server_app.rounds.context import RoundContext
from server_app.rounds.ending.asking import ask_clients
from server_app.rounds.evaluation import with_a_model
from server_app.rounds.kind import stateful_fields
from server_app.runs.client_parts import save_client_part
from server_app.runs.recorder import Recorder
from task.errors import ProtocolError
from task.protocol.after.personal import PERSONAL, PersonalReply
from task.protocol.tensors import PackedTensors, check_tensors


def save_client_parts(context: RoundContext, recorder: Recorder) -> None:
    """Write the part of the model of each client that has trained; ask sites to keep theirs.

    A site sends nothing.

    Args:
        context: the run, after its last round.
        recorder: the run's; it has written the shared part.

    Raises:
        OSError: a file cannot be written.
    """
    clients = with_a_model(context, range(context.experiment.num_clients))
    if context.sites:
        have_sites_keep_their_parts(context, recorder, clients)
    else:
        write_client_parts(context, recorder, clients)


def write_client_parts(context: RoundContext, recorder: Recorder, clients: Sequence[int]) -> None:
    """Write the parts of a simulation's clients.

    They are asked in blocks, so that the server holds few parts at a time. A client whose part is
    lost has no file, and is named in the record.

    Raises:
        OSError: a file cannot be written.
    """
    size = part_bytes(context)
    block = context.clients_per_reply(size)
    saved = 0
    for start in range(0, len(clients), block):
        saved += save_block(context, recorder, clients[start : start + block], size)
    recorder.update(client_parts=saved)


def have_sites_keep_their_parts(
    context: RoundContext, recorder: Recorder, clients: Sequence[int]
) -> None:
    """Ask sites to keep their parts; those that fail or are away are named in the record."""
    replies = ask(context, recorder, clients, 0)
    for client in clients:
        try:
            usable(replies[client]).check_succeeded(client)
        except ProtocolError as error:
            context.note_client(client, f"it did not keep its part of the model: {error}")


def save_block(context: RoundContext, recorder: Recorder, clients: Sequence[int], size: int) -> int:
    """Ask some clients at once for parts of `size` bytes; return how many were written."""
    saved = 0
    replies = ask(context, recorder, clients, size)
    for client in clients:
        try:
            part = usable(replies[client]).of(client)
            check_tensors(part, context.worker.personal.initial)
        except ProtocolError as error:
            context.note_client(client, f"its part of the model is not saved: {error}")
        else:
            model = recorder.record.model_sha256
            save_client_part(recorder.directory, client, part, model)
            saved += 1
    return saved


def ask(
    context: RoundContext, recorder: Recorder, clients: Sequence[int], size: int
) -> Mapping[int, PersonalReply | Failure]:
    """Ask clients for parts of `size` bytes; return each one's reply, or why it has none."""

    def fields(unit: WorkUnit) -> dict[str, Any]:
        model = recorder.record.model_sha256
        return {"model": model, "part_bytes": size, **stateful_fields(context, unit)}

    sizes, what = context.sizes.validation, "part of the model"
    return ask_clients(context, PERSONAL, clients, sizes, fields, what)


def part_bytes(context: RoundContext) -> int:
    """Return the size of one client's part as it travels, with the names and shapes."""
    return len(PackedTensors.of(context.worker.personal.initial).data)
