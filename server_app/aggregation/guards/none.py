"""No guard: every valid update counts."""

from typing import ClassVar

from server_app.aggregation.guards.base import Guard


class NoGuard(Guard):
    """Reads no update, so that workers may add up their clients."""

    needs_each_update: ClassVar[bool] = False
