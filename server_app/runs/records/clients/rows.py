"""The rows of ``clients.csv``."""

from collections.abc import Sequence
from typing import Any

from server_app.aggregation.client_update import ClientUpdate


def client_row(
    server_round: int, update: ClientUpdate, timed: Sequence[str], losses: Sequence[str]
) -> list[Any]:
    """Return one participant's row of ``clients.csv``; what it did not report is empty.

    Args:
        server_round: the round.
        update: its outcome.
        timed: those of `TIMED_COLUMNS` that the table has.
        losses: the columns of losses.
    """
    status = "ok" if update.accepted else "left out" if update.left_out else "failed"
    head = [server_round, update.client, update.site, status, update.reason]
    counts = [update.examples, round(update.seconds, 3), update.device]
    times = [getattr(update, name) for name in timed]
    return head + counts + times + [update.losses.get(name, "") for name in losses]
