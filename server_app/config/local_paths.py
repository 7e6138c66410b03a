"""The settings that are paths on this machine."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from task.machine.files import from_home

PATHS = ("root", "repo")  # a hub data set's repo may be a local directory
FILES = {"after": "images", "clock": "trace"}  # settings of groups that are paths


def downloaded(name: str) -> str:
    """Return where a data set is downloaded to without a root: where sweeps look for it."""
    return str(Path(os.environ.get("DATA", "data"), name))


def local_paths(data: Mapping[str, Any]) -> dict[str, str]:
    """Return the paths of a data set that lie on this machine, absolute, by their key."""
    typed = {key: from_home(str(data[key])) for key in PATHS if data.get(key)}
    return {
        key: str(path.absolute()) for key, path in typed.items() if key == "root" or path.is_dir()
    }
