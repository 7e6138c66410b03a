"""Which experiments noise of all participants can protect: those with masked rounds."""

from typing import TYPE_CHECKING

from task.errors import ConfigError

if TYPE_CHECKING:
    from task.config import LocalConfig


def check_whole_clients(config: "LocalConfig") -> None:
    """Refuse an experiment in which more than the noisy sum of the updates would be told.

    Raises:
        ConfigError: the updates are not masked, or the network has statistics of the images.
    """
    if not config.secure.masked:
        allowed = (
            "each client adds a part of the noise, which is too small for its own update: the "
            "coordinator may learn the sum only; add secure=masked, or choose strategy=dp_fixed"
        )
        raise ConfigError("privacy.unit", "client", allowed)
    if config.personalised:
        allowed = (
            "is scored at each client, and noise at the clients hides these scores; choose another "
            "method"
        )
        raise ConfigError("method", config.method["name"], allowed)
    if config.network().norm == "batch":
        allowed = (
            "the statistics of batch norm reveal the data; with privacy.unit=client add "
            "model.norm=group"
        )
        raise ConfigError("model.norm", "batch", allowed)
