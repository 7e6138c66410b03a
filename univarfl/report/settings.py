"""The settings in which runs differ, and the headings made from them."""

import math
from collections.abc import Sequence
from typing import Any

from server_app.config.differences import deciding
from server_app.config.override_text import flat
from task.errors import ConfigError
from univarfl.records.differences import varied_keys
from univarfl.records.labels import label_of
from univarfl.records.reader import Run

IGNORED = ("seed", "method", "device")  # compared elsewhere, or without effect
NAME_FIRST = (
    "data.name", "partition.name", "model.name", "strategy.name", "clock.name",
    "participation.name", "after.name", "alpha", "rho",
)  # fmt: skip
PARTITION_ALPHA = "partition.alpha"
ALL = "all runs"  # the heading if there is one setting
IMAGES = "images"  # the version of the data set's images
JUDGED_BY = "judged by"  # the split on which accuracy is measured
VERSION_LENGTH = 8
ABSENT = math.nan  # the value of a setting that a run does not have; one that is null has None

Setting = tuple[tuple[str, Any], ...]


def varied_settings(runs: Sequence[Run], tuned: Sequence[str] = ()) -> list[Setting]:
    """Return, for each run, its values of the settings in which the runs differ.

    A key is left out if the keys before it determine its value, as the data set determines the
    number of rounds. What remains is what a person varied. The version of the images comes last: it
    remains only if runs that are otherwise equal were trained on different images.

    Args:
        runs: the runs.
        tuned: dotted keys that belong to the method, so runs may differ in them in one setting.
    """
    flats = [
        {
            key: value
            for key, value in with_alpha_of_split(deciding(run.config)).items()
            if key.split(".")[0] not in IGNORED
            and key not in tuned
            and (key != "data.root" or is_folder(run))
        }
        | {JUDGED_BY: run.split, IMAGES: short_version(run)}
        for run in runs
    ]
    others = {key for values in flats for key in values} - {*NAME_FIRST, IMAGES}
    kept = varied_keys(flats, (*NAME_FIRST, *sorted(others)))
    return [
        tuple((short(key), labelled(key, values.get(key, ABSENT))) for key in kept)
        for values in flats
    ]


def with_alpha_of_split(config: dict[str, Any]) -> dict[str, Any]:
    """Return a flat configuration whose ``alpha`` is the one that the split used.

    ``partition.alpha`` follows ``alpha`` unless it was set by itself. A split without it uses none.
    """
    own = {key: value for key, value in config.items() if key not in ("alpha", PARTITION_ALPHA)}
    return own | ({"alpha": config[PARTITION_ALPHA]} if PARTITION_ALPHA in config else {})


def short_version(run: Run) -> str:
    """Return the start of the version of a run's images, or "unknown"."""
    return (run.record.data_version or "unknown")[:VERSION_LENGTH]


def is_folder(run: Run) -> bool:
    """Return whether the data are images of the user's own, and not a data set with a name."""
    return run.config.get("data", {}).get("name") in ("folder", "table")


def labelled(key: str, value: Any) -> Any:
    """Return a setting's value; a component's label for its name."""
    return (
        label_of(short(key), value) if key.endswith(".name") and isinstance(value, str) else value
    )


def short(key: str) -> str:
    """Return a key as people say it: ``data`` for ``data.name``."""
    return key.removesuffix(".name")


def method_labels(
    runs: Sequence[Run], settings: Sequence[Setting], tuned: Sequence[str] = ()
) -> list[str]:
    """Return, for each run, its method's label and the settings of it in which the runs differ.

    Settings that are null are left out; the method then chooses the value. Tuned values are named
    only where a method has several in one setting.

    Args:
        runs: the runs.
        settings: each run's setting.
        tuned: dotted keys that belong to the method.
    """
    flats = [flat(run.config["method"]) for run in runs]
    labels = []
    for own in flats:
        same = [other for other in flats if other["name"] == own["name"]]
        differing = [
            key
            for key in own
            if len({other.get(key) for other in same}) > 1
            and key != "name"
            and f"method.{key}" not in tuned
        ]
        inner = ", ".join(f"{key}={own[key]}" for key in differing if own[key] is not None)
        label = label_of("method", str(own["name"]))
        labels.append(f"{label} ({inner})" if inner else label)
    values = [tuned_values(run, tuned) for run in runs]
    found: dict[tuple[str, Setting], set[str]] = {}
    for label, setting, value in zip(labels, settings, values, strict=True):
        found.setdefault((label, setting), set()).add(value)
    return [
        f"{label} [{value}]" if len(found[label, setting]) > 1 else label
        for label, setting, value in zip(labels, settings, values, strict=True)
    ]


def checked_tuned(runs: Sequence[Run], tuned: Sequence[str]) -> Sequence[str]:
    """Return the tuned keys, after checking that the runs have them.

    Raises:
        ConfigError: no run has such a setting.
    """
    known = {key for run in runs for key in with_alpha_of_split(deciding(run.config))}
    for key in tuned:
        if key not in known:
            raise ConfigError("--tuned", key, "must be a setting of the runs, such as optim.lr")
    return tuned


def tuned_values(run: Run, tuned: Sequence[str]) -> str:
    """Return a run's values of tuned keys, such as "optim.lr=0.1"."""
    own = flat(run.config)
    return ", ".join(f"{key}={format_value(own[key])}" for key in tuned if key in own)


def heading_of(setting: Setting) -> str:
    """Return a setting as a heading, such as "alpha 0.1, rho 0.5", without absent values."""
    given = [f"{key} {format_value(value)}" for key, value in setting if not is_absent(value)]
    return ", ".join(given or [f"without {key}" for key, _ in setting]) or ALL


def is_absent(value: Any) -> bool:
    """Return whether a value says that the run does not have the setting."""
    return isinstance(value, float) and math.isnan(value)


def format_value(value: Any) -> str:
    """Return a setting's value as short text without loss; "" if a run does not have it."""
    if is_absent(value):
        return ""
    brief = f"{value:g}" if isinstance(value, float) else str(value)
    return brief if not isinstance(value, float) or float(brief) == value else repr(value)
