"""Mean and deviation of each column of numbers over the rows of all clients, before round 1.

Each client sends the sums of its columns as integers (`task.data.column_sums`), its rows for
validation included. Their sum gives the mean and the deviation of all rows in one place, to the
last bit, however they are divided. The settings of the run then hold both, and every message has
them.
Upload: four integers for each column, one exchange. Client state: none.
"""

import logging

from torch import Tensor

from server_app.config.experiment import Experiment
from server_app.nodes.failure import ABSENT, Failure, usable
from server_app.rounds.context import RoundContext
from server_app.rounds.ending.asking import (
    ask_clients,
    check_quorum,
    clients_with_images,
    wait_for_quorum,
)
from server_app.rounds.errors import RunFailedError
from task.data.column_sums import MOST_ROWS, constants_of, number_columns
from task.data.sources.vectors import Vectors
from task.errors import ProtocolError
from task.protocol.columns import COLUMNS, ColumnsReply, check_sums, sums_bytes
from task.registry import named

FIRST_ROUND = 1
STAGE = "data.standardise=federated"
MASKED = "server_app.rounds.masked.columns:masked_sums"

logger = logging.getLogger("univarfl")


def standardised(context: RoundContext) -> Experiment:
    """Return the experiment with the mean and the deviation of each column, asked of the clients.

    Raises:
        RunFailedError: fewer clients than the quorum have answered.
    """
    experiment = context.experiment
    source = experiment.source()
    assert isinstance(source, Vectors)
    schema = source.schema_content
    columns = len(number_columns(schema))
    if not columns:
        return experiment.with_constants([], [])
    wanted = clients_with_images(context)
    wait_for_quorum(context, wanted)
    if experiment.secure.masked:
        total, missing = named(MASKED)(context, wanted, columns)
    else:
        total, missing = plain_sums(context, wanted, columns)
    for client, reason in sorted(missing.items()):
        context.note_client(client, f"its columns are not in the standardisation: {reason}")
    check_quorum(context, wanted, missing, STAGE, "sent the sums of their columns")
    mean, deviation = constants_of(schema, total.numpy())
    logger.info(
        "standardised %d columns by the rows of %d clients", columns, len(wanted) - len(missing)
    )
    return experiment.with_constants(mean, deviation)


def plain_sums(
    context: RoundContext, wanted: list[int], columns: int
) -> tuple[Tensor, dict[int, str]]:
    """Return the sums over all clients, and by client why it has sent none."""
    sizes = context.sizes.images()
    missing = {client: ABSENT for client in wanted if not context.sizes.train[client]}
    clients = [client for client in wanted if client not in missing]
    total, block = None, context.clients_per_reply(sums_bytes(columns))
    most = MOST_ROWS // max(1, len(clients))  # of one client: a site may tell any number
    for start in range(0, len(clients), block):
        asked = clients[start : start + block]
        replies = ask_clients(
            context, COLUMNS, asked, sizes, lambda _: {"columns": columns}, "sums of columns",
            FIRST_ROUND,
        )  # fmt: skip
        for client in asked:
            try:
                sums = read(replies[client], client, columns, min(sizes[client], most))
            except ProtocolError as error:
                missing[client] = str(error)
            else:
                total = sums if total is None else total + sums
    if total is None:
        first = next((f": {reason}" for _, reason in sorted(missing.items())), "")
        raise RunFailedError(f"{STAGE}: no client has sent the sums of its columns{first}")
    return total, missing


def read(reply: ColumnsReply | Failure, client: int, columns: int, rows: int) -> Tensor:
    """Return a client's sums.

    Raises:
        ProtocolError: it has none that can be used.
    """
    return check_sums(usable(reply).of(client), columns, rows)
