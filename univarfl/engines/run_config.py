"""The run-config that tells the ServerApp what to run; see `server_app.config.run_config`."""

import json
from pathlib import Path

from flwr.app import UserConfig

from server_app.config.run_config import SETTINGS, SETTINGS_FILE, Submitted
from task.machine.files import write_secret


def to_run_config(submitted: Submitted) -> UserConfig:
    """Return the run-config of a run in this process."""
    experiment = json.dumps(submitted.experiment.model_dump())
    return {SETTINGS: json.dumps({**submitted._asdict(), "experiment": experiment})}


def to_settings_file(submitted: Submitted, home: Path, path: Path) -> UserConfig:
    """Write what is run to a file that only this user can read, and return the run-config.

    Args:
        submitted: what is run.
        home: Flower's home directory.
        path: the file, in this directory; it is replaced.
    """
    path.unlink(missing_ok=True)
    write_secret(path, str(to_run_config(submitted)[SETTINGS]).encode())
    return {SETTINGS_FILE: path.relative_to(home).as_posix()}


def to_toml(run_config: UserConfig) -> str:
    """Return a run-config as a TOML document."""
    lines = (
        f"{key} = {json.dumps(text, ensure_ascii=False)}\n" for key, text in run_config.items()
    )
    return "".join(lines)
