"""What is done with a round's result: it is recorded, shown, checkpointed, or ends the run."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from server_app.aggregation.global_model import GlobalModel
from server_app.aggregation.weights import from_tensors
from server_app.rounds.errors import RunFailedError
from server_app.rounds.pace.base import Pace
from server_app.rounds.result import Callback, RoundResult
from server_app.runs.checkpoint import LAST_MODELS, Checkpoint, save_checkpoint
from server_app.runs.recorder import Recorder
from server_app.runs.records.by_class import CLASS_METRICS, CONFUSION
from server_app.runs.records.client_scores import (
    CLIENT_SCORES,
    client_scores,
    delete_client_scores,
    save_client_scores,
    spread_over_clients,
)
from server_app.runs.records.tables import MODELS
from server_app.tracking.console import round_line
from server_app.tracking.loggers import MetricLoggers
from task.given_weights import MODEL
from task.machine.files import round_files
from task.progress import RoundEnded, emit
from task.training.evaluation import Score

EMPTY_ROUNDS = 3
DESERTED_ROUNDS = 50
logger = logging.getLogger("univarfl")


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


class RecordRounds(Callback):
    """Writes each round into the run's record.

    Args:
        recorder: the run's.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def after_round(self, result: RoundResult) -> None:
        """Write the round's tables."""
        self._recorder.round(result.round, result.scores, result.updates, result.test.recall)


class TrackRounds(Callback):
    """Passes each round's metrics to the metric loggers, such as TensorBoard.

    Args:
        loggers: the run's.
    """

    def __init__(self, loggers: MetricLoggers) -> None:
        self._loggers = loggers

    def after_round(self, result: RoundResult) -> None:
        """Pass on the metrics."""
        self._loggers.round(result.round, result.scores)


class ShowRounds(Callback):
    """Prints each round as one line, after a warning for each client that failed.

    Args:
        names_sites: whether clients are called by their site's name.
    """

    def __init__(self, names_sites: bool) -> None:
        self._names_sites = names_sites

    def after_round(self, result: RoundResult) -> None:
        """Print the round."""
        for update in result.updates:
            if not (update.accepted or update.left_out):
                name = update.site if self._names_sites else f"client {update.client}"
                logger.warning("round %d, %s: %s", result.round, name, update.reason)
        logger.info(round_line(result.round, result.rounds, result.scores, len(result.updates)))
        emit(RoundEnded(result.round))


class RecordResults(Callback):
    """Writes the final model and its scores into the record, after the last round.

    It comes before `SaveCheckpoints`: a run that is resumed after its last checkpoint has them.

    Args:
        recorder: the run's.
        model: the global model.
        connect_seconds: how long the SuperNodes took to register.
        sites: the name of each client's site; empty in a simulation.
        record_nodes: writes the SuperNodes and their image counts, those that came late included.
    """

    def __init__(
        self,
        recorder: Recorder,
        model: GlobalModel,
        connect_seconds: float,
        sites: Sequence[str],
        record_nodes: Callable[[], None],
    ) -> None:
        self._recorder, self._model, self._sites = recorder, model, sites
        self._connect, self._record_nodes = connect_seconds, record_nodes

    def after_round(self, result: RoundResult) -> None:
        """Write the results, if this was the last round."""
        if result.round < result.rounds:
            return
        self._recorder.save_model(from_tensors(self._model.whole))
        if result.test.by_class:
            self._recorder.save_by_class(result.test.by_class)
        record_client_scores(self._recorder, result.clients, self._sites)
        seconds = {
            "connect": self._connect,
            "rounds": result.seconds,
            "total": self._connect + result.seconds,
        }
        self._recorder.update(
            seconds={name: round(value, 3) for name, value in seconds.items()},
            results={split: dict(result.scores[split]) for split in ("test", "validation")},
        )
        self._record_nodes()


def record_client_scores(
    recorder: Recorder, scores: Mapping[int, Score], sites: Sequence[str]
) -> dict[str, Any]:
    """Replace the record's score of the final model at each client; return the spread.

    If the server sees none, the record has none either, not those of an earlier model.

    Args:
        recorder: the run's.
        scores: by client.
        sites: the name of each client's site; empty in a simulation.
    """
    each = client_scores(scores, sites)
    spread = spread_over_clients(each)
    if each:
        save_client_scores(recorder.directory, each)
        recorder.update(client_scores=spread)
    else:
        delete_client_scores(recorder.directory)
        recorder.remove("client_scores")
    return spread


class SaveCheckpoints(Callback):
    """Writes a checkpoint after each round.

    Args:
        recorder: the run's.
        model: the global model.
        failure_policy: counts the rounds without an update.
        pace: gathers the updates.
    """

    def __init__(
        self, recorder: Recorder, model: GlobalModel, failure_policy: FailurePolicy, pace: Pace
    ) -> None:
        self._recorder, self._model, self._failure_policy = recorder, model, failure_policy
        self._pace, self._end = pace, pace.context.end

    def after_round(self, result: RoundResult) -> None:
        """Write the state after this round."""
        files = [*files_of(self._recorder.directory, result), *self._pace.files()]
        checkpoint = Checkpoint(
            result.round,
            result.seconds,
            self._model.state(),
            self._failure_policy.state(),
            self._pace.state(),
            self._recorder.marks(files),
            self._end.state(),
        )
        save_checkpoint(self._recorder.directory, checkpoint)


def files_of(directory: Path, result: RoundResult) -> Iterator[str]:
    """Yield the models and scores that a run resumed after this round builds on.

    Args:
        directory: the run directory.
        result: the round.
    """
    for path in round_files(directory / MODELS).values():
        yield f"{MODELS}/{path.name}"
    if result.round == result.rounds:
        found = (MODEL, CLASS_METRICS, CONFUSION, CLIENT_SCORES, LAST_MODELS)
        yield from (name for name in found if (directory / name).exists())
