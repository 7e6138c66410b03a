"""Ends a run whose validation score has not improved for some rounds (``stop=patience``).

After each evaluated round all clients validate the model, also if a part of them trains: scores of
changing clients could not be compared. Their counts and losses are summed, so that sites and masked
rounds work as well. A round whose score no client reported is none without improvement: it cannot
end the run.

The run ends as a completed one after the first evaluated round that is `patience` rounds or more
behind the best. Its model is that of this round, so that it is the model of a run with as many
rounds and a constant learning rate. The best score and its round are in the record, and in each
checkpoint, from which a resumed run ends in the same round.
"""

import math
from collections.abc import Mapping
from typing import Any

from server_app.config.experiment import Experiment
from server_app.rounds.context import RunEnd

RISES = {"accuracy": 1.0, "loss": -1.0}  # by metric, the sign with which a better score is larger


class Patience(RunEnd):
    """The end of a run, which comes earlier if the validation score does not improve.

    Args:
        experiment: what is run.
    """

    all_validate = True

    def __init__(self, experiment: Experiment) -> None:
        super().__init__(experiment.rounds)
        self._stop, self._every = experiment.stop, experiment.evaluate_every
        self._best = -math.inf
        self._best_round = 0
        self._ended = False

    def may_follow(self, server_round: int) -> bool:
        return super().may_follow(server_round) or (
            server_round % self._every == 0 and self._is_late(server_round)
        )

    def see(self, server_round: int, validation: Mapping[str, float]) -> None:
        score = validation.get(self._stop.metric, math.nan)
        if not math.isfinite(score):
            return
        better = RISES[self._stop.metric] * score
        if better > self._best + self._stop.min_delta:
            self._best, self._best_round = better, server_round
        elif self._is_late(server_round) and server_round < self.rounds:
            self.rounds, self._ended = server_round, True

    def described(self) -> Mapping[str, Any]:
        if not self._ended:
            return {}
        metric = self._stop.metric
        return {
            "round": self.rounds,
            "metric": metric,
            "best_round": self._best_round,
            "best": RISES[metric] * self._best,
        }

    def state(self) -> Mapping[str, Any]:
        if not self._best_round:
            return {}
        return {"best": self._best, "best_round": self._best_round, "ended": self._ended}

    def restore(self, server_round: int, state: Mapping[str, Any]) -> None:
        if state:
            self._best, self._best_round = float(state["best"]), int(state["best_round"])
            self._ended = bool(state["ended"])
        if self._ended:
            self.rounds = server_round

    def _is_late(self, server_round: int) -> bool:
        """Return whether the best score is so old that a round without a better one is the last."""
        assert self._stop.patience
        return self._best_round > 0 and server_round - self._best_round >= self._stop.patience
