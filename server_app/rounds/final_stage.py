"""The stage after the last round: it changes the global model once, and is recorded."""

import logging
import time
from collections.abc import Mapping
from pathlib import Path

from server_app.aggregation.weights import from_tensors, to_tensors
from server_app.rounds.after.base import AfterTraining
from server_app.rounds.callbacks import record_client_scores
from server_app.rounds.context import RoundContext
from server_app.rounds.evaluation import clients_of_final_scores, score_model
from server_app.rounds.result import Callback, RoundResult
from server_app.runs.last_models import load_last_models, save_last_models
from server_app.runs.recorder import Recorder
from server_app.runs.records.by_class import save_by_class
from task.methods.base import Tensors

logger = logging.getLogger("univarfl")


class LastModels(Callback):
    """Keeps the clients' models of the last round, if the stage after it needs them.

    It comes before `SaveCheckpoints`: a run that is resumed after its last checkpoint has them.

    Args:
        directory: the run's.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._models: Mapping[int, Tensors] | None = None

    def after_round(self, result: RoundResult) -> None:
        """Write the models, if there are any to keep."""
        if result.last_models is not None:
            self._models = result.last_models
            arrays = {client: from_tensors(model) for client, model in self._models.items()}
            save_last_models(self._directory, arrays)

    def models(self) -> Mapping[int, Tensors]:
        """Return the models by client, from the file if this process has not run the last round.

        Raises:
            ConfigError: the file is missing or damaged.
        """
        if self._models is None:
            found = load_last_models(self._directory)
            self._models = {client: to_tensors(model) for client, model in found.items()}
        return self._models


def run_stage(
    context: RoundContext, stage: AfterTraining, recorder: Recorder, models: LastModels
) -> None:
    """Change the global model, score it, and replace the model and results of the record.

    No checkpoint is written. A run that ends during the stage is resumed after its last round, and
    repeats the stage on the model of that round.

    Args:
        context: the run, after its last round.
        stage: changes the model.
        recorder: the run's.
        models: the clients' models of the last round.

    Raises:
        ConfigError, RunFailedError: the stage cannot be completed.
    """
    started = time.perf_counter()
    experiment, model, name = context.experiment, context.model, context.experiment.after["name"]
    before = context.worker.test(model.weights, by_class=True)
    outcome = stage.apply(context, models.models() if stage.needs_models else {})
    facts = dict(outcome.facts)
    if layer := not_finite(outcome.weights):
        facts["reason"] = f"{layer} is not finite, and the model of the last round is kept"
        context.note("", f"after={name}: {facts['reason']}")
    else:
        model.weights = {key: outcome.weights[key] for key in model.weights}
    found = score_model(context, experiment.rounds, clients_of_final_scores(context))
    after = found.test
    seconds = round(time.perf_counter() - started, 3)

    recorder.save_model(from_tensors(model.weights))
    record_client_scores(recorder, found.clients, context.sites)
    if after.by_class:
        classes = recorder.summary["data"]["classes"]
        save_by_class(recorder.directory, classes, after.by_class)
    scores = {"before": dict(before.means), "after": dict(after.means)}
    recorder.update(
        results={"test": scores["after"], "validation": dict(found.validation)},
        after={"name": name, "seconds": seconds, **scores, **facts},
    )
    logger.info("%s", stage_line(name, scores, seconds))


def not_finite(weights: Tensors) -> str:
    """Return the name of a layer with infinite numbers or NaN; empty if there is none."""
    wrong = (n for n, v in weights.items() if v.is_floating_point() and not v.isfinite().all())
    return next(wrong, "")


def stage_line(name: str, scores: Mapping[str, Mapping[str, float]], seconds: float) -> str:
    """Return the stage as one line: test accuracy before and after, and seconds."""
    before, after = (scores[when].get("accuracy") for when in ("before", "after"))
    gain = "no test images"
    if before is not None and after is not None:
        gain = f"test {before:.3f} -> {after:.3f} ({100 * (after - before):+.1f} points)"
    return f"after training, {name}: {gain}  {seconds:.1f} s"
