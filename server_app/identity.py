"""What makes two runs the same: the settings and the code that decide a result."""

import functools
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from task.fingerprint import code_directories, hash_of

# Where a run is kept, how it is shown, and by how many workers of what engine it is computed.
UNDECIDING_SETTINGS = (
    "output_dir",
    "run_id",
    "resume",
    "published",
    "watch",
    "engine",
    "federation",
)
UNDECIDING_FOLDERS = ("analysis", "inference", "report", "sweep", "watching")


@functools.cache
def code_hash() -> str:
    """SHA-256 of the code that decides results, the server's too; settings are hashed apart."""
    folders = {name: path for name, path in code_directories().items() if name != "conf"}
    folders["server_app"] = Path(__file__).resolve().parent
    return hash_of(folders, UNDECIDING_FOLDERS)


def identity_of(config: Mapping[str, Any], code: str) -> str:
    """A hash of a configuration and of the code that runs it: equal for equal results."""
    settings = {key: value for key, value in config.items() if key not in UNDECIDING_SETTINGS}
    text = json.dumps([settings, code], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]
