"""When a run that trains nobody any more is over."""

from collections.abc import Sequence

from server_app.replies import ClientUpdate

EMPTY_ROUNDS = 3


class RunFailedError(RuntimeError):
    """The run cannot go on; the text says why."""


class Patience:
    """Bears rounds without a single accepted client, within reason.

    Such a round leaves the global model as it is, and the next one is tried: at a small rho one
    client may be all there is. It is over when every client of the experiment has failed since the
    last accepted update, or `EMPTY_ROUNDS` rounds in a row were empty.
    """

    def __init__(self, num_clients: int) -> None:
        self._num_clients = num_clients
        self._failed: set[int] = set()
        self._empty_rounds = 0

    def watch(self, server_round: int, trained: Sequence[ClientUpdate]) -> None:
        """Look at one round's participants.

        Raises:
            RunFailedError: it is over.
        """
        if any(update.accepted for update in trained):
            self._failed.clear()
            self._empty_rounds = 0
            return
        self._empty_rounds += 1
        self._failed |= {update.client for update in trained}
        if len(self._failed) == self._num_clients or self._empty_rounds == EMPTY_ROUNDS:
            times = "" if self._empty_rounds == 1 else f", {self._empty_rounds} rounds in a row"
            raise RunFailedError(
                f"round {server_round}: every participant failed{times}; the last reason: "
                f"{trained[-1].reason}"
            )
