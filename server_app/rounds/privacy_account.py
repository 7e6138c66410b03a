"""The privacy that a run has spent, recorded before the data are used."""

from collections.abc import Callable
from typing import Any

from server_app.aggregation.strategies.base import strategy_of
from server_app.config.compatibility.masking import most_colluding, secure_threshold
from server_app.config.experiment import Experiment
from server_app.rounds.context import Account
from server_app.rounds.sampling import most_asked, quorum_count
from server_app.runs.records.parts import Privacy
from task.privacy.description import FROM_SEED, FROM_SYSTEM, SEED_IS_KNOWN
from task.privacy.record import OUTSIDE, OUTSIDE_SUMS, client_privacy, example_privacy


class PrivacyAccount(Account):
    """Charges every attempt at a round.

    An attempt is in the record before a client is asked. So an attempt that fails, or that is
    repeated after an interruption, counts too.

    Args:
        experiment: what is run.
        earlier: what the record says of a resumed run; None for a new one.
        write: replaces entries of the record (`Recorder.update`).
    """

    def __init__(
        self,
        experiment: Experiment,
        earlier: Privacy | None,
        write: Callable[..., None],
    ) -> None:
        self._experiment, self._write = experiment, write
        self._attempts = earlier.attempts if earlier else 0
        self.epsilon = number(earlier.epsilon) if earlier else None

    def charge(self, server_round: int) -> None:
        self._attempts += 1
        spent = privacy_spent(self._experiment, server_round, self._attempts - server_round)
        self.epsilon = number(spent["epsilon"])
        self._write(privacy={**spent, "attempts": self._attempts})


def number(epsilon: float | str) -> float | None:
    """Return the epsilon that is spent; None if it is not accounted."""
    return epsilon if isinstance(epsilon, float) else None


def privacy_spent(experiment: Experiment, rounds: int, repeated: int = 0) -> dict[str, Any]:
    """Return the privacy spent in rounds, and in `repeated` more attempts at them.

    It is for the record of an experiment with noise.
    """
    privacy, attempts = experiment.privacy, rounds + repeated
    closed_form = experiment.closed_form
    spent = strategy_of(experiment).privacy_spent(attempts)
    if privacy.per_example:
        outside = OUTSIDE_SUMS if closed_form else OUTSIDE
        spent = example_privacy(privacy, experiment.passes, attempts, outside)
    if privacy.per_client:
        asked = experiment.participants
        most = most_asked(experiment.num_clients, experiment.rho, experiment.seed, rounds)
        least = secure_threshold(experiment, asked)
        if not closed_form:  # sums of sums need the threshold alone
            least = max(least, quorum_count(experiment.federation.quorum, asked))
        honest = least - most_colluding(experiment, asked)
        spent = client_privacy(privacy, most + repeated, asked, honest)
    if privacy.reproducible:
        return {**spent, "noise": FROM_SEED, "outside": [SEED_IS_KNOWN, *spent["outside"]]}
    return {**spent, "noise": FROM_SYSTEM}
