"""Which setting adds noise that keeps the data private."""

from server_app.aggregation.strategies.base import strategy_of
from server_app.config.experiment import Experiment


def source_of_noise(experiment: Experiment) -> str:
    """Return the setting that makes a run differentially private; empty if there is none."""
    if strategy_of(experiment).private:
        return f"strategy={experiment.strategy['name']}"
    return f"privacy.unit={experiment.privacy.unit}" if experiment.privacy.private else ""
