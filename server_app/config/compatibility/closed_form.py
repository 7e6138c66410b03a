"""Which settings do not fit a method that trains nothing."""

from collections.abc import Iterator

from server_app.config.experiment import Experiment
from server_app.rounds.after.base import stage_of
from task.errors import ConfigError


def problems(experiment: Experiment) -> Iterator[ConfigError]:
    """Yield settings of training and of its rounds, which there are not."""
    method = f"method={experiment.method['name']}"
    if experiment.rounds != 1:
        allowed = f"must be 1 with {method}, which asks every client once; add rounds=1"
        yield ConfigError("rounds", experiment.rounds, allowed)
    if experiment.rho != 1:
        allowed = f"must be 1 with {method}, which asks every client once; add rho=1"
        yield ConfigError("rho", experiment.rho, allowed)
    for group, usual in (("participation", "uniform"), ("clock", "real"), ("strategy", "fedavg")):
        if (chosen := getattr(experiment, group)["name"]) != usual:
            allowed = f"does not fit {method}, which trains nothing; add {group}={usual}"
            yield ConfigError(group, chosen, allowed)
    reads = f"does not fit {method}, which reads sums of clients' features"
    if (guard := experiment.guard["name"]) != "none":
        yield ConfigError("guard", guard, f"{reads} unguarded; add guard=none")
    if experiment.watch.models_every is not None:
        allowed = f"keeps the clients' models, and with {method} they send none; leave it out"
        yield ConfigError("watch.models_every", experiment.watch.models_every, allowed)
    if stage_of(experiment).needs_models:
        allowed = f"uses the clients' models, and with {method} they send none; add after=none"
        yield ConfigError("after", experiment.after["name"], allowed)
