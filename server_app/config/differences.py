"""The settings that decide a result, and those that do not."""

from collections.abc import Mapping
from typing import Any

from server_app.config.override_text import flat
from task.config import MEASURED
from task.given_weights import PRETRAINED

# Where a run is stored, how it is shown, and on which engine and how many workers it runs.
# `equations` decides nothing by itself: the method's settings that take its value do.
UNDECIDING_SETTINGS = (
    "output_dir",
    "run_id",
    "resume",
    "published",
    "watch",
    "engine",
    "equations",
    "federation",
)
HOW_IT_RUNS = frozenset(("federation", "watch", "engine"))  # a resumed run can change these


def deciding(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that decide a result, by dotted key."""
    return flat(deciding_groups(config))


def deciding_groups(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that decide a result, by group.

    With ``privacy=client`` the quorum is one of them, because it decides how much noise a client
    adds.
    """
    found = {key: part for key, part in config.items() if key not in UNDECIDING_SETTINGS}
    if config.get("privacy", {}).get("unit") == "client":
        found["federation"] = {"quorum": config.get("federation", {}).get("quorum")}
    if MEASURED in config.get("data", {}):  # it follows from the rows
        found["data"] = {key: part for key, part in config["data"].items() if key != MEASURED}
    if PRETRAINED in config.get("model", {}):  # the hash of the weights decides, not their source
        found["model"] = {key: part for key, part in config["model"].items() if key != PRETRAINED}
    return found
