"""The columns of clients' rows with masks: the server gets the sum of the clients' sums."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from server_app.config.compatibility.masking import most_colluding, secure_threshold
from server_app.nodes.assignment import units_of_served
from server_app.nodes.failure import ABSENT
from server_app.rounds.context import RoundContext
from server_app.rounds.errors import RunFailedError
from server_app.rounds.masked.summing import MaskedSumming, new_scope, site_keys
from task.data.column_sums import SUMS, problem_with
from task.errors import ProtocolError
from task.protocol.masking.columns import MASKED_COLUMNS
from task.secure.coordinator import Coordinator, TooFewError
from task.secure.transcript import COLUMNS

FIRST_ROUND, ATTEMPT = 1, 1
CURE = "add data.standardise=schema, with the mean and the deviation of an earlier run"


def masked_sums(
    context: RoundContext, clients: Sequence[int], columns: int
) -> tuple[Tensor, dict[int, str]]:
    """Return the sums over the clients, and by client why it is not in them.

    Args:
        context: the run, before round 1.
        clients: who is asked.
        columns: the number of columns.

    Raises:
        RunFailedError: fewer than the threshold are in the sum, or it cannot be one of rows.
    """
    experiment, sizes = context.experiment, context.sizes
    units = units_of_served(clients, sizes.train, context.connected())
    here = sorted(client for unit in units for client in unit.clients)
    scope = new_scope(context, FIRST_ROUND, ATTEMPT, COLUMNS)
    try:
        threshold = secure_threshold(experiment, len(here))
    except ValueError as error:
        raise not_summed(error, {}) from None
    coordinator = Coordinator(
        scope, threshold, most_colluding(experiment, len(here)), True,
        {client: sizes.train[client] for client in here}, site_keys(context, units),
    )  # fmt: skip
    summing = MaskedSumming(context, scope, units, coordinator, threshold, SUMS * columns)
    try:
        view = summing.prepare()
        summing.collect(MASKED_COLUMNS, view, {"columns": columns})
        total = summing.unmask(view).reshape(SUMS, columns)
    except (TooFewError, ProtocolError) as error:
        raise not_summed(error, summing.stages.reasons) from None
    if problem := problem_with(total, sum(sizes.images()[client] for client in here)):
        raise RunFailedError(f"the sum of the columns cannot be one of rows: {problem}")
    missing = {client: ABSENT for client in clients if client not in here}
    missing |= summing.stages.reasons
    return torch.from_numpy(total), missing


def not_summed(error: Exception, reasons: Mapping[int, str]) -> RunFailedError:
    """Return the error of columns that cannot be summed up.

    Args:
        error: why.
        reasons: by client, why it has not answered.
    """
    first = next((f"; the first: {reason}" for _, reason in sorted(reasons.items())), "")
    return RunFailedError(f"the columns cannot be summed up with masks: {error}{first}; {CURE}")
