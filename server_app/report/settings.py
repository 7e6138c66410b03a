"""What tells runs apart: the method, the seed, and the settings that differ and matter."""

from collections.abc import Sequence
from typing import Any

from server_app.flattening import flat
from server_app.report.records import Run

NO_SETTINGS = (
    "seed", "output_dir", "run_id", "published", "engine", "device", "federation", "method",
    "evaluate_every", "watch",
)  # fmt: skip
NAME_FIRST = ("data.name", "partition.name", "model.name", "strategy.name", "alpha", "rho")

Setting = tuple[tuple[str, Any], ...]


def settings_of(runs: Sequence[Run]) -> list[Setting]:
    """For each run, the settings that not all runs share.

    A key that follows from the ones before it (the number of rounds from the data set, say) is left
    out, so that what remains is what a person varied.
    """
    flats = [
        {
            key: value
            for key, value in flat(run.config).items()
            if key.split(".")[0] not in NO_SETTINGS and (key != "data.root" or own_images(run))
        }
        | {"judged by": run.split}
        for run in runs
    ]
    every = {key for values in flats for key in values}
    keys = [key for key in NAME_FIRST if key in every] + sorted(every - set(NAME_FIRST))
    kept: list[str] = []
    groups = 1
    for key in keys:
        now = len({tuple(values.get(name) for name in [*kept, key]) for values in flats})
        if now > groups:
            kept.append(key)
            groups = now
    return [tuple((short(key), values.get(key)) for key in kept) for values in flats]


def own_images(run: Run) -> bool:
    """Whether the data are whatever lies in a directory, and not a data set that has a name."""
    return bool(run.config.get("data", {}).get("name") == "folder")


def short(key: str) -> str:
    """A key as people say it: ``data`` for ``data.name``."""
    return key.removesuffix(".name")


def method_labels(runs: Sequence[Run]) -> list[str]:
    """For each run its method's name, and those of its settings in which runs of it differ.

    One that is null, which leaves it to the method, is not said.
    """
    flats = [flat(run.config["method"]) for run in runs]
    labels = []
    for own in flats:
        same = [other for other in flats if other["name"] == own["name"]]
        differing = [
            key for key in own if len({other.get(key) for other in same}) > 1 and key != "name"
        ]
        inner = ", ".join(f"{key}={own[key]}" for key in differing if own[key] is not None)
        labels.append(f"{own['name']} ({inner})" if inner else str(own["name"]))
    return labels


def told(setting: Setting) -> str:
    """A setting as a heading."""
    return ", ".join(f"{key} {shown(value)}" for key, value in setting) or "all runs"


def shown(value: Any) -> str:
    """A setting's value without digits that say nothing."""
    brief = f"{value:g}" if isinstance(value, float) else str(value)
    return brief if not isinstance(value, float) or float(brief) == value else repr(value)
