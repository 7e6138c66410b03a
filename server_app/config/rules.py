"""Which settings fit together, beyond those of local training (`task.rules`)?

A rule is a function that yields an error for each problem; the first one is raised.
"""

from collections.abc import Callable, Iterator

from server_app.aggregation.guards.base import guard_of
from server_app.aggregation.strategies.base import strategy_of
from server_app.config.experiment import Experiment
from server_app.rounds.after.base import stage_of
from server_app.rounds.clock.base import clock_of
from server_app.rounds.participation.base import policy_of
from task.errors import ConfigError
from task.registry import explained
from task.rules import check_local_config, of_options

# The rules of options, each with what tells whether the option is chosen.
OPTIONS: tuple[tuple[Callable[[Experiment], bool], str], ...] = (
    (
        lambda of: strategy_of(of).private,
        "server_app.config.compatibility.central_privacy:problems",
    ),
    (lambda of: of.stop.patience is not None, "server_app.config.compatibility.stopping:problems"),
    (lambda of: of.update.rounded, "server_app.config.compatibility.rounded_updates:problems"),
    (lambda of: of.secure.rounded, "server_app.config.compatibility.masking:problems"),
    (
        lambda of: of.closed_form,
        "server_app.config.compatibility.closed_form:problems",
    ),
    (
        lambda of: bool(of.without or of.sums.keep or of.sums.add_to),
        "server_app.config.compatibility.kept_sums:problems",
    ),
    (lambda of: strategy_of(of).buffered, "server_app.config.compatibility.buffered:problems"),
    (
        lambda of: of.network().statistics != "averaged",
        "server_app.config.compatibility.statistics:problems",
    ),
)


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
    for problem in problems(experiment):
        raise problem


def problems(experiment: Experiment) -> Iterator[ConfigError]:
    """Yield each problem by the rules of the server, and of the options that are chosen."""
    yield from of_client_models(experiment)
    strategy = strategy_of(experiment)
    try:
        strategy.check_participants(experiment.participants, experiment.num_clients)
    except ConfigError as error:
        yield error.under("strategy")
    yield from of_server_steps(experiment)
    yield from of_repeated_noise(experiment)
    yield from of_columns(experiment)
    yield from of_options(OPTIONS, experiment)
    yield from clock_of(experiment).problems(experiment)
    yield from policy_of(experiment).problems(experiment)
    yield from stage_of(experiment).problems(experiment)


def of_columns(experiment: Experiment) -> Iterator[ConfigError]:
    """Sums of columns, which have no noise, in a run that is private."""
    if experiment.data.get("standardise") == "federated" and experiment.source_of_noise:
        allowed = "asks for sums without noise; add data.standardise=schema, or none"
        yield ConfigError("data.standardise", "federated", allowed)


def of_client_models(experiment: Experiment) -> Iterator[ConfigError]:
    """Settings that keep or use the clients' models, where no model is kept or sent."""
    every, rounds = experiment.watch.models_every, experiment.rounds
    if every is not None and every > rounds:
        allowed = f"is more than the {rounds} rounds, so no model would be kept"
        yield ConfigError("watch.models_every", every, allowed)
    if not any(member.scales_update for member in experiment.local_method().members()):
        return
    allowed = (
        f"uses the clients' models, and with method={experiment.method['name']} they send scaled "
        "updates instead; leave it out, or choose another method"
    )
    if every is not None:
        yield ConfigError("watch.models_every", every, allowed)
    if stage_of(experiment).needs_models:
        yield ConfigError("after", experiment.after["name"], allowed)


def of_server_steps(experiment: Experiment) -> Iterator[ConfigError]:
    """A strategy or guard that a method's server update does not fit."""
    guard, strategy = guard_of(experiment), strategy_of(experiment)
    name = experiment.strategy["name"]
    yield from of_guard(experiment)
    for member, method in zip(
        experiment.local_method().members(), experiment.methods(), strict=True
    ):
        if member.server_update and not strategy.moves_to_mean:
            allowed = (
                f"method={method} needs the exact mean of the clients' models, which this strategy "
                "does not compute; choose strategy=fedavg"
            )
            yield ConfigError("strategy", name, allowed)
        if member.scales_step and strategy.state_attributes:
            allowed = (
                f"method={method} changes the length of the server's step, and this strategy "
                "keeps momentum or moments of earlier steps; choose strategy=fedavg"
            )
            yield ConfigError("strategy", name, allowed)
        if member.scales_step and guard.least_updates:
            allowed = (
                f"method={method} sends more than an update, by which the norms of updates cannot "
                "be compared; choose guard=none"
            )
            yield ConfigError("guard", experiment.guard["name"], allowed)
        if member.server_update and guard.clips:
            allowed = (
                f"method={method} needs the whole update of each client, and this guard would "
                "use a part of it; choose guard=drop"
            )
            yield ConfigError("guard", experiment.guard["name"], allowed)


def of_guard(experiment: Experiment) -> Iterator[ConfigError]:
    """A guard that would keep every update, because it compares too few."""
    strategy, least = strategy_of(experiment), guard_of(experiment).least_updates
    together = strategy.updates_together(experiment.participants)
    if together < least:
        larger = "num_clients" if experiment.participants == experiment.num_clients else "rho"
        if strategy.buffered:
            larger = "strategy.buffer_size"
        allowed = (
            f"needs at least {least} updates together, but there are {together}; "
            f"raise {larger}, or choose guard=none"
        )
        yield ConfigError("guard", experiment.guard["name"], allowed)


def of_repeated_noise(experiment: Experiment) -> Iterator[ConfigError]:
    """Noise that is to be repeated, and that nobody adds."""
    privacy = experiment.privacy
    if privacy.reproducible and not privacy.private and not strategy_of(experiment).private:
        allowed = (
            "there is no noise to reproduce; choose privacy=example or client, or "
            "strategy=dp_fixed, or leave it out"
        )
        yield ConfigError("privacy.reproducible", True, allowed)
