"""No guard: every valid update counts."""

from typing import ClassVar

from server_app.aggregation.guards.base import Guard


class NoGuard(Guard):
    """Reads no update, so that a worker may send the sum of its clients' updates."""

    needs_each_update: ClassVar[bool] = False
