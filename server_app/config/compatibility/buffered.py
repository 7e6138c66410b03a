"""Which settings do not fit a strategy that takes updates as they arrive."""

from collections.abc import Iterator

from server_app.config.experiment import Experiment
from server_app.rounds.after.base import stage_of
from server_app.rounds.clock.base import clock_of
from server_app.rounds.participation.base import policy_of
from task.errors import ConfigError


def problems(experiment: Experiment) -> Iterator[ConfigError]:
    """Yield an error for each setting that needs the updates of one round, or a fixed order."""
    name = experiment.strategy["name"]
    mixes = f"strategy={name} mixes updates of several rounds"
    if policy_of(experiment).waits:
        allowed = f"strategy={name} waits for no client; add participation=available"
        yield ConfigError("participation", experiment.participation["name"], allowed)
    if experiment.secure.rounded:
        allowed = f"{mixes}, but masks need all clients of one; add secure=none"
        yield ConfigError("secure", experiment.secure.mode, allowed)
    if experiment.privacy.per_client:
        allowed = f"{mixes}, but the noise needs all clients of one; add privacy=none"
        yield ConfigError("privacy.unit", "client", allowed)
    members = experiment.local_method().members()
    for method, member in zip(experiment.methods(), members, strict=True):
        if member.server_update or member.scales_step:
            allowed = f"method={method} needs all updates of one; add strategy=fedavg"
            yield ConfigError("strategy", name, f"mixes updates of several rounds, but {allowed}")
    if stage_of(experiment).needs_models:
        allowed = f"needs models of one round, but {mixes}; add after=none"
        yield ConfigError("after", experiment.after["name"], allowed)
    if (every := experiment.watch.models_every) is not None:
        allowed = f"keeps models of one round, but {mixes}; use null"
        yield ConfigError("watch.models_every", every, allowed)
    if not (clock_of(experiment).virtual or experiment.partitioner().sites):
        allowed = (
            "takes updates in the order in which they arrive, which a simulation repeats only "
            "with simulated devices; add clock=virtual"
        )
        yield ConfigError("strategy", name, allowed)
