"""Which settings do not fit masked or rounded sums, and how many participants masks need."""

import math
from collections.abc import Iterator

from server_app.aggregation.guards.base import guard_of
from server_app.aggregation.strategies.base import strategy_of
from server_app.config.experiment import Experiment
from task.errors import ConfigError
from task.given_weights import given_weights
from task.protocol.masking.rows import MAX_PARTICIPANTS
from task.secure.rules.threshold import colluding_of, threshold_of

ONLY_THE_SUM = "reads each client's update, and with secure={} the server knows their sum only"


def problems(experiment: Experiment) -> Iterator[ConfigError]:
    """Yield settings of the server that do not fit sums of rounded updates."""
    secure, only_the_sum = experiment.secure, ONLY_THE_SUM.format(experiment.secure.mode)
    if strategy_of(experiment).needs_each_update:
        instead = "choose strategy=fedavg, fedavgm, fedadam, fedyogi or fedadagrad"
        yield ConfigError("strategy", experiment.strategy["name"], f"{only_the_sum}; {instead}")
    if guard_of(experiment).needs_each_update:
        yield ConfigError("guard", experiment.guard["name"], f"{only_the_sum}; add guard=none")
    if experiment.watch.models_every:
        allowed = f"keeps each client's model, which secure={secure.mode} hides; leave it out"
        yield ConfigError("watch.models_every", experiment.watch.models_every, allowed)
    given = given_weights(experiment.model) if secure.masked else None
    if secure.start is not None and given is None:
        allowed = "follows from the file of model.weights; leave it out"
        yield ConfigError("secure.start", secure.start, allowed)
    alike = strategy_of(experiment).weighs_alike() or experiment.privacy.per_client
    if secure.rounding == "nearest" and not alike:
        allowed = (
            "hides updates only if all weigh the same; add strategy.weighting=uniform, or choose "
            "stochastic"
        )
        yield ConfigError("secure.rounding", "nearest", allowed)
    if secure.masked:
        yield from of_numbers(experiment)
    elif experiment.partitioner().sites and secure.rounding == "stochastic":
        allowed = (
            "is for simulations, and at sites for secure.rounding=nearest; choose secure=masked"
        )
        yield ConfigError("secure", "rounded", allowed)


def of_numbers(experiment: Experiment) -> Iterator[ConfigError]:
    """Yield too few or too many participants, or a largest weight that is too small for them."""
    if experiment.num_clients > MAX_PARTICIPANTS:
        allowed = (
            f"is for at most {MAX_PARTICIPANTS} clients, and there are {experiment.num_clients}; "
            "lower num_clients"
        )
        yield ConfigError("secure", "masked", allowed)
    try:
        for count in (experiment.participants, experiment.num_clients):
            secure_threshold(experiment, count)
    except ValueError as error:
        allowed = f"{error}; raise num_clients or rho, or lower secure.colluding"
        yield ConfigError("secure", "masked", allowed)
    least = 1 / experiment.participants
    if experiment.secure.max_share < least:
        rounded_up = math.ceil(least * 1e6) / 1e6
        allowed = (
            f"must be at least 1 / participants = {rounded_up:g}, the largest weight if all are "
            "equal"
        )
        yield ConfigError("secure.max_share", experiment.secure.max_share, allowed)


def most_colluding(experiment: Experiment, clients: int) -> int:
    """Return how many participants of a masked sum may work with the coordinator.

    Args:
        experiment: what is run.
        clients: how many are asked.
    """
    return colluding_of(counted(experiment, clients), experiment.secure.colluding)


def secure_threshold(experiment: Experiment, clients: int) -> int:
    """Return how many participants a masked sum needs.

    Sites compute it from their rosters, so it is the same however many of them are asked.

    Args:
        experiment: what is run.
        clients: how many are asked.

    Raises:
        ValueError: they are too few.
    """
    everyone = counted(experiment, clients)
    needed = threshold_of(everyone, experiment.secure.colluding)
    if clients < needed:
        raise ValueError(f"{clients} of {everyone} sites are below the threshold of {needed}")
    return needed


def counted(experiment: Experiment, clients: int) -> int:
    """Return from how many participants threshold and colluders follow; sites know all."""
    return experiment.num_clients if experiment.partitioner().sites else clients
