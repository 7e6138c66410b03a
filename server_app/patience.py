"""When a run that trains nobody any more is over."""

from collections.abc import Sequence
from typing import Any

from server_app.failures import RunFailedError
from server_app.replies import ClientUpdate

EMPTY_ROUNDS = 3


class Patience:
    """Bears rounds that leave the global model as it is, within reason.

    The next one is tried: at a small rho one client may be all there is. It is over when every
    client of the experiment has failed since the last update, or `EMPTY_ROUNDS` rounds in a row
    brought none.
    """

    def __init__(self, num_clients: int) -> None:
        self._num_clients = num_clients
        self._failed: set[int] = set()
        self._empty_rounds = 0

    def state(self) -> dict[str, Any]:
        """What it has borne, to be kept."""
        return {"failed": sorted(self._failed), "empty_rounds": self._empty_rounds}

    def restore(self, state: dict[str, Any]) -> None:
        """Put back what `state` gave."""
        self._failed, self._empty_rounds = set(state["failed"]), state["empty_rounds"]

    def watch(self, server_round: int, trained: Sequence[ClientUpdate], least_updates: int) -> None:
        """Look at one round's participants, of whom `least_updates` had to succeed.

        Raises:
            RunFailedError: it is over.
        """
        failed = [update for update in trained if not update.accepted]
        accepted = len(trained) - len(failed)
        if accepted >= least_updates:
            self._failed.clear()
            self._empty_rounds = 0
            return
        self._empty_rounds += 1
        self._failed |= {update.client for update in failed}
        if len(self._failed) == self._num_clients or self._empty_rounds == EMPTY_ROUNDS:
            times = "" if self._empty_rounds == 1 else f", {self._empty_rounds} rounds in a row"
            what = f"only {accepted} of {least_updates}" if accepted else "no"
            raise RunFailedError(
                f"round {server_round}: {what} clients succeeded{times}; the last reason: "
                f"{failed[-1].reason}"
            )
