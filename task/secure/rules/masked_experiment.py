"""Which experiments masks can protect: those whose clients send one update, and keep nothing."""

from collections.abc import Iterator

from task.config import LocalConfig
from task.errors import ConfigError


def problems(config: LocalConfig) -> Iterator[ConfigError]:
    """Yield what makes clients send more than an update, or keep a state.

    ``secure=rounded`` takes the same experiments, so that the two can be compared.

    A coordinator chooses the global model, and for each client the round of the state that the
    client continues from. With a model that has no gradients, and a state at one client only, the
    sum of all updates would be this client's own.
    """
    plain = "" if config.privacy.per_client else ", or secure=none"
    members = config.local_method().members()
    for name, member in zip(config.methods(), members, strict=True):
        if member.server_update:
            allowed = (
                "has a server update, for which clients send more than their model, without a "
                f"mask; choose another method{plain}"
            )
            yield ConfigError("method", name, allowed)
        if member.keeps_state or member.personalises:
            allowed = (
                "keeps something at each client between rounds, and a coordinator could use it to "
                f"separate one client's update from the sum; choose another method{plain}"
            )
            yield ConfigError("method", name, allowed)
    if config.optim.keep_momentum:
        allowed = (
            "a coordinator could use the kept momentum to separate one client's update from the "
            f"sum; leave it out{plain}"
        )
        yield ConfigError("optim.keep_momentum", True, allowed)
    if config.privacy.per_example:
        allowed = "adds noise to each update, and does not fit masks yet; choose secure=none"
        yield ConfigError("privacy.unit", "example", allowed)
