"""Which settings do not fit the use of each client's trained model on the server."""

from typing import TYPE_CHECKING

from task.errors import ConfigError

if TYPE_CHECKING:
    from server_app.config.experiment import Experiment


def check_client_models(experiment: "Experiment") -> None:
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
    if experiment.after_training().needs_models:
        raise ConfigError("after", experiment.after["name"], allowed)
