"""Which settings of local training fit together; the server and every site check them."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from task.config import LocalConfig
from task.errors import ConfigError
from task.registry import explained


@lru_cache(maxsize=8)
def read_local_config(text: str) -> LocalConfig:
    """Read the settings of local training from JSON; a process parses each text once.

    Raises:
        ConfigError: a key or value is not allowed, or settings do not fit together.
    """
    with explained():
        config = LocalConfig.model_validate_json(text)
    check_local_config(config)
    return config


def read_settings(settings: Mapping[str, Any]) -> LocalConfig:
    """Return the settings of local training that a record has.

    Raises:
        ConfigError: a key or value is not allowed, or settings do not fit together.
    """
    with explained():
        config = LocalConfig.model_validate(settings)
    check_local_config(config)
    return config


def check_local_config(config: LocalConfig) -> None:
    """Build each component, and refuse those that do not fit together.

    Raises:
        ConfigError: a setting of a component is not allowed, or two settings do not fit.
    """
    check_sites(config)
    config.augmenter()
    check_methods(config)
    if config.secure.rounded:
        from task.secure.rules.masked_experiment import check_masked_experiment  # noqa: PLC0415

        check_masked_experiment(config)
    if config.privacy.per_example:
        from task.privacy.separable import check_separable  # noqa: PLC0415

        check_separable(config)
    if config.privacy.per_client:
        from task.privacy.whole_clients import check_whole_clients  # noqa: PLC0415

        check_whole_clients(config)


def check_sites(config: LocalConfig) -> None:
    """Refuse a data set that no site can have, or another number of clients than of sites.

    Raises:
        ConfigError: it is so.
    """
    source = config.source()
    if sites := config.partitioner().sites:
        source.at_site("a site's own directory")
        if config.num_clients != len(sites):
            allowed = f"must be {len(sites)}, the number of sites in partition.names"
            raise ConfigError("num_clients", config.num_clients, f"{allowed}; leave it out")


def check_methods(config: LocalConfig) -> None:
    """Refuse a method that does not fit the network, the data or how a step is computed.

    Raises:
        ConfigError: there is one; the text names what to choose instead.
    """
    network, members = config.network(), config.local_method().members()
    for name, member in zip(config.methods(), members, strict=True):
        if problem := member.problem_with(network, config.model["name"], config.local_epochs):
            raise ConfigError("method", config.method["name"], problem)
        if config.runtime.compiled and member.varies_network:
            allowed = (
                f"method={name} changes the network while it trains, and every variant would "
                "be compiled again; leave it out"
            )
            raise ConfigError("runtime.compiled", True, allowed)
        if member.personalises and not config.source().validation_share:
            allowed = "needs validation images at the clients; add data.validation_share=0.1"
            raise ConfigError("method", config.method["name"], allowed)
