"""The stage after the last round: it changes the global model once, and is recorded."""

import logging
import time
from collections.abc import Mapping
from typing import Any

from server_app.aggregation.weights import from_tensors, to_tensors
from server_app.rounds.after.base import AfterTraining, StageResult
from server_app.rounds.callbacks import record_client_scores
from server_app.rounds.context import RoundContext
from server_app.rounds.evaluation import clients_of_final_scores, score_model
from server_app.rounds.kind import RoundKind
from server_app.rounds.result import Callback, RoundResult
from server_app.runs.checkpoint import load_last_models, save_last_models
from server_app.runs.recorder import Recorder
from server_app.runs.records.client_scores import client_scores, spread_over_clients
from task.tensors import Tensors, is_finite
from task.training.evaluation import Score

logger = logging.getLogger("univarfl")


class FinalStage(Callback):
    """Runs the stage, and keeps the clients' models of the last round if the stage needs them.

    As a callback it comes before `SaveCheckpoints`: a run that is resumed after its last checkpoint
    has the models.

    Args:
        kind: asks the clients of the run.
        stage: changes the model.
        recorder: the run's.
    """

    def __init__(self, kind: RoundKind, stage: AfterTraining, recorder: Recorder) -> None:
        self._kind, self._stage, self._recorder = kind, stage, recorder
        self._models: Mapping[int, Tensors] | None = None

    def after_round(self, result: RoundResult) -> None:
        """Write the models, if there are any to keep."""
        if result.last_models is not None:
            self._models = result.last_models
            arrays = {client: from_tensors(model) for client, model in self._models.items()}
            save_last_models(self._recorder.directory, arrays)

    def models(self) -> Mapping[int, Tensors]:
        """Return the models by client, from the file if this process has not run the last round.

        Raises:
            ConfigError: the file is missing or damaged.
        """
        if self._models is None:
            found = load_last_models(self._recorder.directory)
            self._models = {client: to_tensors(model) for client, model in found.items()}
        return self._models

    def run(self) -> None:
        """Change the global model, score it, and replace the model and results of the record.

        No checkpoint is written. A run that ends during the stage is resumed after its last round,
        and repeats the stage on the model of that round; a stage may keep parts of its work.

        Raises:
            ConfigError, RunFailedError: the stage cannot be completed.
        """
        stage, recorder, context = self._stage, self._recorder, self._kind.context
        started, name = time.perf_counter(), context.experiment.after["name"]
        outcome = stage.apply(context, self.models() if stage.needs_models else {})
        if outcome.at_clients:
            scores = record_at_clients(context, recorder, outcome.at_clients)
        else:
            scores = record_new_model(self._kind, recorder, outcome, f"after={name}")
        seconds = round(time.perf_counter() - started, 3)
        recorder.update(
            after={"name": name, "seconds": seconds, **scores, **outcome.facts},
            seconds=recorder.seconds_with("after", seconds),
        )
        logger.info("%s", stage_line(name, scores, seconds, at_clients=stage.at_clients))


def record_at_clients(
    context: RoundContext,
    recorder: Recorder,
    found: tuple[Mapping[int, Score], Mapping[int, Score]],
) -> dict[str, Any]:
    """Record the scores of the clients' own models; return the spreads before and after."""
    before, after = found
    return {
        "before": spread_over_clients(client_scores(before, context.sites)),
        "after": record_client_scores(recorder, after, context.sites),
    }


def record_new_model(
    kind: RoundKind, recorder: Recorder, outcome: StageResult, stage: str
) -> dict[str, Any]:
    """Replace the global model and its scores; return the test scores before and after.

    If there are no new weights, or they are not finite, the model stays, and the reason is
    returned too.

    Args:
        kind: asks the clients of the run.
        recorder: the run's.
        outcome: the new weights.
        stage: the setting that has the stage, for the event.
    """
    context = kind.context
    model, facts = context.model, {}
    before = context.worker.test(model.weights, by_class=True)
    reason, weights = outcome.reason, outcome.weights
    if not reason and (layer := not_finite(weights)):
        reason = f"{layer} is not finite"
    if reason:
        facts["reason"] = f"{reason}; the model of the last round is kept"
        context.note("", f"{stage}: {facts['reason']}")
    else:
        model.weights = {key: weights[key] for key in model.weights}
    found = score_model(kind, context.experiment.rounds, clients_of_final_scores(context))
    recorder.save_model(from_tensors(model.whole))
    record_client_scores(recorder, found.clients, context.sites)
    if found.test.by_class:
        recorder.save_by_class(found.test.by_class)
    scores = {"before": dict(before.means), "after": dict(found.test.means)}
    recorder.update(results={"test": scores["after"], "validation": dict(found.validation)})
    return {**scores, **facts}


def not_finite(weights: Tensors) -> str:
    """Return the name of a layer with infinite numbers or NaN; empty if there is none."""
    wrong = (n for n, v in weights.items() if v.is_floating_point() and not is_finite(v))
    return next(wrong, "")


def stage_line(
    name: str, scores: Mapping[str, Mapping[str, Any]], seconds: float, *, at_clients: bool
) -> str:
    """Return the stage as one line: accuracy before and after, and seconds."""
    key, of, nothing = "accuracy", "test", "no test images"
    if at_clients:
        key, of, nothing = "mean", "mean at the clients", "no client holds out 20 images"
    before, after = (scores[when].get(key) for when in ("before", "after"))
    gain = nothing
    if before is not None and after is not None:
        gain = f"{of} {before:.3f} -> {after:.3f} ({100 * (after - before):+.1f} points)"
    return f"after training, {name}: {gain}  {seconds:.1f} s"
