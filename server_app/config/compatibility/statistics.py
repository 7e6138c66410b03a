"""Which settings do not fit statistics of batch norm that are not averaged over the clients."""

from collections.abc import Iterator

from server_app.config.experiment import Experiment
from server_app.rounds.after.base import stage_of
from task.errors import ConfigError

KEY = "model.statistics"


def problems(experiment: Experiment) -> Iterator[ConfigError]:
    """Yield why the chosen statistics cannot be had."""
    chosen = experiment.network().statistics
    found = of_moments(experiment) if chosen == "moments" else why_not_measured(experiment)
    for reason in found:
        yield ConfigError(KEY, chosen, f"{reason}; choose averaged")


def of_moments(experiment: Experiment) -> Iterator[str]:
    """Yield why clients' moments cannot be averaged."""
    if experiment.component("strategy").needs_each_update:
        strategy = experiment.strategy["name"]
        yield f"needs a mean of the clients' statistics, and strategy={strategy} computes none"
    if experiment.watch.models_every or stage_of(experiment).needs_models:
        kept = "watch.models_every" if experiment.watch.models_every else "the stage after training"
        yield f"has clients send no variances, and {kept} needs their whole models"
    yield from of_own_statistics(experiment)


def why_not_measured(experiment: Experiment) -> Iterator[str]:
    """Yield why the statistics cannot be measured at the clients after the last round."""
    yield from of_own_statistics(experiment)
    if experiment.closed_form:
        method = experiment.method["name"]
        yield f"changes the features after training, and method={method} trains nothing"
    guard, strategy = experiment.guard["name"], experiment.strategy["name"]
    bypasses = "reads the clients' statistics unguarded, which bypasses"
    if guard != "none":
        yield f"{bypasses} guard={guard}"
    if experiment.component("strategy").needs_each_update:
        yield f"{bypasses} strategy={strategy}"


def of_own_statistics(experiment: Experiment) -> Iterator[str]:
    """Yield why there are no statistics of one model."""
    if not experiment.tuning().whole:
        yield "is for a network that is trained as a whole, with tune=all"
    if experiment.local().personalised:
        method = experiment.method["name"]
        yield f"is for one model of all clients, and each client of method={method} has its own"
