"""Which settings fit together, beyond those of local training (`task.rules`)?

The rules of an option are in `server_app.config.compatibility`, and imported if it is chosen.
"""

from server_app.aggregation.guards.base import guard_of
from server_app.aggregation.strategies.base import strategy_of
from server_app.config.experiment import Experiment
from server_app.rounds.after.base import stage_of
from server_app.rounds.clock.base import clock_of
from server_app.rounds.participation.base import policy_of
from task.errors import ConfigError
from task.registry import explained
from task.rules import check_local_config


def read_experiment(text: str) -> Experiment:
    """Read a resolved experiment from JSON.

    Raises:
        ConfigError: a key or value is not allowed, or settings do not fit together.
    """
    with explained():
        experiment = Experiment.model_validate_json(text)
    check_experiment(experiment)
    return experiment


def check_experiment(experiment: Experiment) -> None:
    """Build each component, and refuse those that do not fit together.

    Raises:
        ConfigError: a setting of a component is not allowed, or two settings do not fit.
    """
    check_local_config(experiment)
    check_client_models(experiment)
    strategy = strategy_of(experiment)
    try:
        strategy.check_participants(experiment.participants, experiment.num_clients)
    except ConfigError as error:
        raise error.under("strategy") from None
    check_server_steps(experiment)
    if strategy.private:
        from server_app.config.compatibility.central_privacy import (  # noqa: PLC0415
            check_central_privacy,
        )

        check_central_privacy(experiment)
    elif experiment.privacy.reproducible and not experiment.privacy.private:
        allowed = (
            "there is no noise to reproduce; choose privacy=example or client, or "
            "strategy=dp_fixed, or leave it out"
        )
        raise ConfigError("privacy.reproducible", True, allowed)
    if experiment.secure.rounded:
        from server_app.config.compatibility.masking import check_rounded  # noqa: PLC0415

        check_rounded(experiment)
    if strategy.buffered:
        from server_app.config.compatibility.buffered import check_buffered  # noqa: PLC0415

        check_buffered(experiment)
    clock_of(experiment).check(experiment)
    policy_of(experiment).check(experiment)
    stage_of(experiment).check(experiment)


def check_client_models(experiment: Experiment) -> None:
    """Refuse to keep or to use the clients' models if that would keep none, or what is no model.

    Raises:
        ConfigError: it is so.
    """
    every, rounds = experiment.watch.models_every, experiment.rounds
    if every is not None and every > rounds:
        allowed = f"is more than the {rounds} rounds, so no model would be kept"
        raise ConfigError("watch.models_every", every, allowed)
    if not any(member.scales_update for member in experiment.local_method().members()):
        return
    allowed = (
        f"uses the clients' models, and with method={experiment.method['name']} they send scaled "
        "updates instead; leave it out, or choose another method"
    )
    if every is not None:
        raise ConfigError("watch.models_every", every, allowed)
    if stage_of(experiment).needs_models:
        raise ConfigError("after", experiment.after["name"], allowed)


def check_server_steps(experiment: Experiment) -> None:
    """Refuse a strategy or guard that a method's server update does not fit.

    Raises:
        ConfigError: there is one; the text names what to choose instead.
    """
    guard, strategy = guard_of(experiment), strategy_of(experiment)
    name = experiment.strategy["name"]
    check_guard(experiment, guard.least_updates)
    for member, method in zip(
        experiment.local_method().members(), experiment.methods(), strict=True
    ):
        if member.server_update and not strategy.moves_to_mean:
            allowed = (
                f"method={method} needs the exact mean of the clients' models, which this strategy "
                "does not compute; choose strategy=fedavg"
            )
            raise ConfigError("strategy", name, allowed)
        if member.scales_step and strategy.state_attributes:
            allowed = (
                f"method={method} changes the length of the server's step, and this strategy "
                "keeps momentum or moments of earlier steps; choose strategy=fedavg"
            )
            raise ConfigError("strategy", name, allowed)
        if member.scales_step and guard.least_updates:
            allowed = (
                f"method={method} sends more than an update, by which the norms of updates cannot "
                "be compared; choose guard=none"
            )
            raise ConfigError("guard", experiment.guard["name"], allowed)
        if member.server_update and guard.clips:
            allowed = (
                f"method={method} needs the whole update of each client, and this guard would "
                "use a part of it; choose guard=drop"
            )
            raise ConfigError("guard", experiment.guard["name"], allowed)


def check_guard(experiment: Experiment, least: int) -> None:
    """Refuse a guard that would keep every update, because it compares too few.

    Args:
        experiment: the experiment.
        least: the number of updates that the guard compares at least.

    Raises:
        ConfigError: fewer count together.
    """
    strategy = strategy_of(experiment)
    together = strategy.updates_together(experiment.participants)
    if together < least:
        larger = "num_clients" if experiment.participants == experiment.num_clients else "rho"
        if strategy.buffered:
            larger = "strategy.buffer_size"
        allowed = (
            f"needs at least {least} updates together, but there are {together}; "
            f"raise {larger}, or choose guard=none"
        )
        raise ConfigError("guard", experiment.guard["name"], allowed)
