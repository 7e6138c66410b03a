"""The settings in which runs differ."""

from collections.abc import Mapping, Sequence
from typing import Any

from server_app.config.differences import deciding
from server_app.runs.identity import identity_of

FIRST = (
    "data.name", "partition.name", "alpha", "rho", "method.name", "model.name", "strategy.name",
    "clock.name", "participation.name", "seed",
)  # fmt: skip


def differing_settings(configs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return, for each configuration, the settings that not all of them share, by dotted key.

    If configurations differ in a group's choice, such as the method, only the choice is given, as
    ``{"method": "fedavg"}``.
    """
    every = [deciding(config) for config in configs]
    keys = dict.fromkeys(key for own in every for key in own)
    differing = [key for key in keys if len({repr(own.get(key)) for own in every}) > 1]
    chosen = {key.removesuffix(".name") for key in differing if key.endswith(".name")}
    return [
        {
            key.removesuffix(".name"): own[key]
            for key in differing
            if key in own and (key.endswith(".name") or key.partition(".")[0] not in chosen)
        }
        for own in every
    ]


def varied_keys(settings: Sequence[Mapping[str, Any]], first: Sequence[str] = FIRST) -> list[str]:
    """Return the keys that tell settings apart, those that people vary most first.

    A key is left out if the keys before it determine its value, as the data set determines the
    number of rounds.

    Args:
        settings: settings by dotted key.
        first: keys that come before all others.
    """
    every = dict.fromkeys(key for own in settings for key in own)
    ordered = [key for key in first if key in every] + [key for key in every if key not in first]
    groups = [0] * len(settings)
    kept, found = [], 1
    for key in ordered:
        finer: dict[tuple[int, str], int] = {}
        now = [
            finer.setdefault((group, repr(own.get(key))), len(finer))
            for group, own in zip(groups, settings, strict=True)
        ]
        if len(finer) > found:
            kept.append(key)
            groups, found = now, len(finer)
    return kept


def settings_hash(config: Mapping[str, Any]) -> str:
    """Return a hash of a run's settings without the place of its data and without its code."""
    return identity_of({**config, "data": without_root(config["data"])}, None)


def without_root(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a data set without its place on this machine."""
    return {key: value for key, value in data.items() if key != "root"}
