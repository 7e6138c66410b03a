"""How often something that has ended is started again."""

MOST_RESTARTS = 3
LONGEST_PAUSE = 60.0
MOST_DOUBLED = 10  # how often a pause is doubled
STEADY_SECONDS = 300.0  # a process that has run for as long counts as progress


class Restarts:
    """A bound on restarts in a row that bring no progress.

    Args:
        most: how many are allowed; `math.inf` for any number.
    """

    def __init__(self, most: float = MOST_RESTARTS) -> None:
        self.most = most
        self._count = 0

    def allow(self, *, progress: bool) -> bool:
        """Return whether one more restart is allowed, and count it.

        Args:
            progress: whether there was progress since the last restart; counting starts again.
        """
        if progress:
            self._count = 0
        self._count += 1
        return self._count <= self.most

    @property
    def pause(self) -> float:
        """The seconds to wait before the restart that was counted last: none before the first."""
        doubled = min(self._count - 1, MOST_DOUBLED)
        return min(2.0**doubled - 1, LONGEST_PAUSE)
