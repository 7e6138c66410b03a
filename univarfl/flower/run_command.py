"""The command that submits a run to a SuperLink, and the application that is submitted."""

import shutil
import tomllib
from collections.abc import Sequence
from pathlib import Path

from server_app.config.experiment import Experiment
from server_app.config.run_config import Submitted
from univarfl.application import DIRECTORY
from univarfl.engines.run_config import to_settings_file, to_toml

PROJECT = "pyproject.toml"
APP_NAME, SETTINGS_NAME = "app", "settings.json"


def run_command(
    home: Path,
    directory: Path,
    experiment: Experiment,
    words: Sequence[str],
    lease: str = "",
) -> list[str]:
    """Write the application and the run-config; return the command that submits and follows a run.

    Args:
        home: Flower's home directory.
        directory: where ``app/``, ``run.toml`` and ``settings.json`` are written; in `home`.
        experiment: what is run, with its run directory.
        words: the words it was composed from.
        lease: the path of the lease with which the run ends, or nothing.
    """
    config, submitted = directory / "run.toml", Submitted(experiment, words, lease)
    config.write_text(to_toml(to_settings_file(submitted, home, directory / SETTINGS_NAME)))
    copy_app(directory / APP_NAME)
    return ["flwr", "run", str(directory / APP_NAME), "--stream", "--run-config", str(config)]


def copy_app(target: Path) -> None:
    """Copy the files of the Flower application to a directory of their own.

    Args:
        target: the directory.

    ``flwr run`` resolves every file below the directory that it is given before it selects those to
    submit. In a checkout with a virtual environment this takes five seconds of CPU time.
    """
    shutil.rmtree(target, ignore_errors=True)
    project = tomllib.loads((DIRECTORY / PROJECT).read_text())
    patterns = project["tool"]["flwr"]["app"]["fab-include"]
    for source in sorted(
        {path for pattern in [PROJECT, *patterns] for path in DIRECTORY.glob(pattern)}
    ):
        inside = source.relative_to(DIRECTORY)
        copy = target / inside
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, copy)


def remove_app(directory: Path) -> None:
    """Remove the application and the settings that `run_command` has written."""
    shutil.rmtree(directory / APP_NAME, ignore_errors=True)
    (directory / SETTINGS_NAME).unlink(missing_ok=True)
