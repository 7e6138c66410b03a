"""Which settings do not fit a run that ends once its validation score does not improve."""

from collections.abc import Iterator

from server_app.config.experiment import Experiment
from task.errors import ConfigError


def problems(experiment: Experiment) -> Iterator[ConfigError]:
    """Yield why there is no score to watch, or none of every round."""
    patience = experiment.stop.patience
    why = ""
    if experiment.closed_form:
        method = experiment.method["name"]
        why = f"has no effect with method={method}, which has one round; leave it out"
    elif noise := experiment.source_of_noise:
        why = f"watches scores without noise, which {noise} does not protect; add stop=none"
    elif not experiment.validation_share:
        why = "watches the clients' validation images; add data.validation_share=0.1, or stop=none"
    elif experiment.component("strategy").buffered:
        strategy = experiment.strategy["name"]
        why = (
            f"has all clients validate after a round, and with strategy={strategy} some are at "
            "work; add strategy=fedavg, or stop=none"
        )
    elif (every := experiment.evaluate_every) > 1 and patience is not None and patience < every:
        why = f"must be at least evaluate_every={every}; raise it, or lower evaluate_every"
    if why:
        yield ConfigError("stop.patience", patience, why)
