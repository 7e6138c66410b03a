"""Which methods that change the server's step do not fit a strategy or a guard."""

from typing import TYPE_CHECKING

from task.errors import ConfigError

if TYPE_CHECKING:
    from server_app.config.experiment import Experiment


def check_server_steps(experiment: "Experiment") -> None:
    """Refuse a strategy or guard that a method's server update does not fit.

    Raises:
        ConfigError: there is one; the text names what to choose instead.
    """
    guard, strategy = experiment.update_guard(), experiment.aggregation()
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


def check_guard(experiment: "Experiment", least: int) -> None:
    """Refuse a guard that would keep every update, because it compares too few.

    Args:
        experiment: the experiment.
        least: the number of updates that the guard compares at least.

    Raises:
        ConfigError: fewer count together.
    """
    strategy = experiment.aggregation()
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
