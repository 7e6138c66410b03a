"""What to type for the noise of differential privacy, which needs a choice beside its setting."""

import re
from collections.abc import Mapping

from server_app.config.override_text import flat
from server_app.config.vocabulary.keys import OFF, leaf, plain
from server_app.config.vocabulary.symbols import chosen_with_symbol

NOISE = ("noise", "noisemultiplier", "dpnoise")
EPSILON = ("epsilon", "targetepsilon", "dpepsilon")
PLACES = ("", "privacy", "strategy", "dp")  # the groups in which these words mean privacy
NUMBER = re.compile(r"\+?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
USUAL = "1.0"  # the noise multiplier of conf/privacy/example.yaml


def noise_to_type(key: str, value: str, config: Mapping[str, object]) -> str:
    """Return what to type instead of an unknown key that means noise; empty for other keys.

    Args:
        key: the key.
        value: its value.
        config: the composed configuration without it.
    """
    if key.rpartition(".")[0] not in PLACES:
        return ""
    if plain(leaf(key)) in EPSILON:
        reported = "epsilon is reported and cannot be set; the noise multiplier decides it"
        found = [] if "." in key else chosen_with_symbol(key, config)
        own = [f"; for the method's epsilon write {each}={value}" for each in found]
        return f"{reported}: write {words_for_noise(USUAL, config)}{''.join(own)}"
    if plain(leaf(key)) not in NOISE:
        return ""
    if plain(value) in OFF:
        return words_for_none(config)
    return f"write {words_for_noise(value if NUMBER.fullmatch(value) else USUAL, config)}"


def words_for_none(config: Mapping[str, object]) -> str:
    """Return what to type for no noise, beside the choices of a configuration."""
    known = flat(config)
    if known.get("privacy.unit"):
        return "write privacy=none"
    if "strategy.noise_multiplier" in known:
        return "write strategy=fedavg"
    return "leave it out; nothing adds noise without privacy=example or strategy=dp_fixed"


def words_for_noise(multiplier: str, config: Mapping[str, object]) -> str:
    """Return the overrides that add noise of a size, beside the choices of a configuration."""
    known = flat(config)
    if known.get("privacy.unit"):
        return f"privacy.noise_multiplier={multiplier}"
    if "strategy.noise_multiplier" in known:
        return f"strategy.noise_multiplier={multiplier}"
    norm = "model.norm=group " if known.get("model.norm") == "batch" else ""
    if known.get("secure.mode") == "masked":
        return f"privacy=client {norm}privacy.noise_multiplier={multiplier}"
    # Many methods cannot be trained with noise, and FedAvg always can.
    method = known.get("method.name")
    at_clients = "" if method == "fedavg" else "method=fedavg "
    at_server = "" if method == "univarfl" else at_clients
    return (
        f"privacy=example {at_clients}{norm}privacy.noise_multiplier={multiplier} for noise at the "
        f"clients, or strategy=dp_fixed {at_server}{norm}strategy.noise_multiplier={multiplier} at "
        "the server"
    )
