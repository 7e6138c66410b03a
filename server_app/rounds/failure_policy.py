"""When a run ends because too many clients fail."""

from typing import Any

from server_app.rounds.errors import RunFailedError
from server_app.rounds.result import Callback, RoundResult

EMPTY_ROUNDS = 3
DESERTED_ROUNDS = 50


class FailurePolicy(Callback):
    """Stops the run after `EMPTY_ROUNDS` rounds without an update, or once every client failed.

    Before that, the next round is tried: at a small rho, one client may be all of a round. Rounds
    that are empty because a simulated clock left every client out are counted separately, up to
    `DESERTED_ROUNDS`.

    Args:
        num_clients: the number of the experiment's clients.
        min_updates: the number of accepted updates that a round needs.
    """

    def __init__(self, num_clients: int, min_updates: int) -> None:
        self._num_clients, self._min_updates = num_clients, min_updates
        self._failed: set[int] = set()
        self._empty_rounds = self._deserted_rounds = 0

    def state(self) -> dict[str, Any]:
        """Return the failures since the last update, for a checkpoint."""
        return {
            "failed": sorted(self._failed),
            "empty_rounds": self._empty_rounds,
            "deserted_rounds": self._deserted_rounds,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what `state` returned."""
        self._failed, self._empty_rounds = set(state["failed"]), state["empty_rounds"]
        self._deserted_rounds = state.get("deserted_rounds", 0)

    def after_round(self, result: RoundResult) -> None:
        """Count the failures of a round.

        Raises:
            RunFailedError: the run is over.
        """
        failed = [update for update in result.updates if not update.accepted]
        accepted = len(result.updates) - len(failed)
        if accepted >= self._min_updates:
            self._failed.clear()
            self._empty_rounds = self._deserted_rounds = 0
            return
        if failed and all(update.left_out for update in failed):
            self._deserted_rounds += 1
            if self._deserted_rounds == DESERTED_ROUNDS:
                raise RunFailedError(
                    f"round {result.round}: too few clients took part in {DESERTED_ROUNDS} rounds "
                    f"in a row; the last reason: {failed[-1].reason}; raise rho, or change the "
                    "clock or the participation"
                )
            return
        self._empty_rounds += 1
        counted = (each for each in failed if not (each.given_up or each.left_out))
        self._failed |= {update.client for update in counted}
        if len(self._failed) == self._num_clients or self._empty_rounds == EMPTY_ROUNDS:
            times = "" if self._empty_rounds == 1 else f", {self._empty_rounds} rounds in a row"
            what = f"only {accepted} of {self._min_updates}" if accepted else "no"
            why = f"; the last reason: {failed[-1].reason}" if failed else ""
            raise RunFailedError(f"round {result.round}: {what} clients succeeded{times}{why}")
