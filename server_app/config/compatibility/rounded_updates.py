"""Which settings do not fit updates that are rounded."""

from collections.abc import Iterator

from server_app.aggregation.strategies.base import strategy_of
from server_app.config.experiment import Experiment
from task.errors import ConfigError


def problems(experiment: Experiment) -> Iterator[ConfigError]:
    """Yield a strategy for which an update must not be rounded, or cannot be read."""
    name, update = experiment.strategy["name"], experiment.update.format
    strategy = strategy_of(experiment)
    if strategy.client_clipping_norm():
        allowed = (
            f"rounding can make an update longer than the norm that strategy={name} counts on for "
            "its noise; add update=float32, or strategy=dp_fixed, which clips what it receives"
        )
        yield ConfigError("update", update, allowed)
    if strategy.buffered:
        allowed = (
            f"is read with the weights of one round, and strategy={name} mixes updates of several; "
            "add update=float32, or strategy=fedavg"
        )
        yield ConfigError("update", update, allowed)
