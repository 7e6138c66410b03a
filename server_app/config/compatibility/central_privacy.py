"""Which settings do not fit a strategy that is differentially private."""

from collections.abc import Iterator

from server_app.aggregation.guards.base import guard_of
from server_app.config.experiment import Experiment
from task.errors import ConfigError


def problems(experiment: Experiment) -> Iterator[ConfigError]:
    """Yield an error for each setting that reveals data despite a private strategy."""
    name = experiment.strategy["name"]
    if experiment.privacy.private:
        allowed = (
            f"strategy={name} adds noise at the server, and privacy.unit at the clients; "
            "choose one: strategy=fedavg, or privacy=none"
        )
        yield ConfigError("privacy.unit", experiment.privacy.unit, allowed)
    if experiment.keeps_statistics:
        allowed = (
            "the statistics of batch norm reveal the data; add model.norm=group (method=fedbn, "
            "which needs batch norm, cannot be private)"
        )
        yield ConfigError("strategy", name, allowed)
    if guard_of(experiment).needs_each_update:
        allowed = "the choice of the dropped client depends on its data; add guard=none"
        yield ConfigError("guard", experiment.guard["name"], allowed)
    if experiment.watch.models_every:
        allowed = f"saves models of clients, which have no noise of strategy={name}; leave it out"
        yield ConfigError("watch.models_every", experiment.watch.models_every, allowed)
