"""Settings that a person typed and that have no effect beside the others."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from task.errors import ConfigError

Settings = Mapping[str, Any]

BY_TRACE = (
    "seconds_per_image", "speed_sigma", "megabits", "bandwidth_sigma", "available_hours",
    "available_spread", "dropout",
)  # fmt: skip


class Unused(NamedTuple):
    """Keys, when they have no effect, and what to do about it.

    Attributes:
        keys: dotted keys.
        when: whether composed settings leave the keys without effect.
        cure: the end of the message "has no effect ...".
    """

    keys: tuple[str, ...]
    when: Callable[[Settings], bool]
    cure: str


UNUSED = (
    Unused(
        ("alpha",), lambda of: "alpha" not in of["partition"],
        "without partition=dirichlet; leave it out, or add that",
    ),
    Unused(
        ("data.interpolation",), lambda of: of["data"]["name"] in ("generated", "vectors"),
        "with this data set, which resizes nothing; leave it out",
    ),
    Unused(
        ("data.validation_share",), lambda of: of["privacy"]["unit"] is not None,
        "with privacy, where clients hold no images out; leave it out",
    ),
    Unused(
        ("privacy.noise_multiplier", "privacy.clipping_norm", "privacy.sampling_rate",
         "privacy.delta"),
        lambda of: of["privacy"]["unit"] is None,
        "without noise; add privacy=example or privacy=client; noise at the server has its "
        "settings under strategy",
    ),
    Unused(
        ("method.energy_weight", "method.energy_eps", "method.uniformity_weight"),
        lambda of: of["model"]["name"] == "linear",
        "with model=linear, which has no layers before the classifier; leave it out, or add "
        "another model",
    ),
    Unused(
        ("federation.attempts",), lambda of: of["strategy"]["name"] == "fedbuff",
        "with strategy=fedbuff, which repeats no round; leave it out",
    ),
    Unused(
        ("data.test_share",), lambda of: bool(of["data"].get("test_split")),
        "with data.test_split, which names the test images; leave one of them out",
    ),
    Unused(
        tuple(f"clock.{key}" for key in BY_TRACE), lambda of: bool(of["clock"].get("trace")),
        "with clock.trace, whose file describes the devices; leave one of them out",
    ),
    Unused(
        ("model.pan_frequency", "model.pan_amplitude"), lambda of: of["model"].get("pan") == "none",
        "without model.pan=add or model.pan=multiply; leave it out, or add one of them",
    ),
    Unused(
        ("model.fixed_after",), lambda of: of["model"]["norm"] != "fixed",
        "without model.norm=fixed; leave it out, or add that",
    ),
    Unused(
        ("model.features",), lambda of: of["model"].get("projector") == "none",
        "with model.projector=none, where the pooled maps are the features; leave it out",
    ),
    Unused(
        ("federation.workers",), lambda of: of["partition"]["name"] == "sites",
        "with partition=sites, where each site is one worker; leave it out",
    ),
    Unused(
        ("federation.message_megabytes",),
        lambda of: of["partition"]["name"] == "sites"
        and of["after"]["name"] not in ("ccvr", "ridge")
        and of["method"]["name"] not in ("ridge", "ncm"),
        "with partition=sites, where each site sends its own reply; leave it out",
    ),
)  # fmt: skip


def check_used(typed: Mapping[str, str], settings: Settings) -> None:
    """Refuse a setting that was typed and has no effect.

    Args:
        typed: values by dotted key.
        settings: all settings, by group.

    Raises:
        ConfigError: there is one; the text says what to do.
    """
    for unused in UNUSED:
        for key in unused.keys:
            if key in typed and unused.when(settings):
                raise ConfigError(key, typed[key], f"has no effect {unused.cure}")
    if "alpha" in typed and "partition.alpha" in typed:
        allowed = "has no effect with partition.alpha; leave one of them out"
        raise ConfigError("alpha", typed["alpha"], allowed)
