"""The privacy that a run has spent, recorded before the data are used."""

from collections.abc import Callable, Mapping
from typing import Any

from server_app.config.experiment import Experiment


class PrivacyAccount:
    """Charges every attempt at a round.

    An attempt is in the record before a client is asked. So an attempt that fails, or that is
    repeated after an interruption, counts too.

    Args:
        experiment: what is run.
        earlier: what the record says of a resumed run; empty for a new one.
        write: replaces entries of the record (`Recorder.update`).
    """

    def __init__(
        self,
        experiment: Experiment,
        earlier: Mapping[str, Any],
        write: Callable[..., None],
    ) -> None:
        self._experiment, self._write = experiment, write
        self._attempts: int = earlier.get("attempts", 0)
        self._spent = earlier

    def charge(self, server_round: int) -> None:
        """Record one more attempt at a round; nothing without differential privacy.

        Args:
            server_round: the round, from 1; the attempts before it are at least as many.

        Raises:
            OSError: the record cannot be written.
        """
        attempts = self._attempts + 1
        if spent := self._experiment.privacy_spent(server_round, attempts - server_round):
            self._attempts, self._spent = attempts, {**spent, "attempts": attempts}
            self._write(privacy=self._spent)

    @property
    def epsilon(self) -> float | None:
        """The epsilon that is spent; None if there is none, or if it is not accounted."""
        epsilon = self._spent.get("epsilon")
        return epsilon if isinstance(epsilon, float) else None
