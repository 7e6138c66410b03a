"""Which experiments noise of all participants can protect: those with masked rounds."""

from collections.abc import Iterator

from task.config import LocalConfig
from task.errors import ConfigError


def problems(config: LocalConfig) -> Iterator[ConfigError]:
    """Yield what would tell more than the noisy sum of the updates."""
    if not config.secure.masked:
        allowed = (
            "one client's part of the noise is too small to protect its update, so updates must be "
            "masked; add secure=masked, or use noise at the server: privacy=none strategy=dp_fixed"
        )
        yield ConfigError("privacy.unit", "client", allowed)
    if config.privacy.delta >= 1 / config.num_clients:
        allowed = f"must be below 1 / num_clients, here 1 / {config.num_clients}"
        yield ConfigError("privacy.delta", config.privacy.delta, allowed)
    if config.keeps_statistics and not config.closed_form:
        allowed = (
            "the statistics of batch norm reveal the data; with privacy.unit=client add "
            "model.norm=group"
        )
        yield ConfigError("model.norm", config.network().norm, allowed)
