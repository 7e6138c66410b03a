"""Which setting adds noise that keeps the data private."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from server_app.config.experiment import Experiment


def source_of_noise(experiment: "Experiment") -> str:
    """Return the setting that makes a run differentially private; empty if there is none."""
    if experiment.aggregation().private:
        return f"strategy={experiment.strategy['name']}"
    return f"privacy.unit={experiment.privacy.unit}" if experiment.privacy.private else ""
