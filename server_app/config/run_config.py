"""Flower's run-config, which tells the ServerApp what to run.

Every node of a run can read its run-config. So the command writes the experiment to a file in
Flower's home directory, and the run-config has the file's name under ``settings-file``. With
``flwr run`` a person sets ``overrides`` instead, and the ServerApp composes the experiment from
them. In one process, ``settings`` has the content of the file.
"""

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from server_app.config.experiment import Experiment
from server_app.config.rules import read_experiment
from task.errors import ConfigError, system_reason

OVERRIDES, SETTINGS, SETTINGS_FILE = "overrides", "settings", "settings-file"
HOME = "FLWR_HOME"  # the environment variable with Flower's home directory


class Submitted(NamedTuple):
    """What a ServerApp is asked to run.

    Attributes:
        experiment: the experiment, with its run directory.
        words: the words it was composed from; the record keeps them.
        lease: the path of a lease (`server_app.flower.lease`), with which the run ends; empty for
            none. ``univarfl deploy run`` holds it while it runs.
    """

    experiment: Experiment
    words: Sequence[str]
    lease: str = ""


def from_run_config(run_config: Mapping[str, object]) -> Submitted:
    """Return the experiment, words and lease that a run-config names.

    Raises:
        ConfigError: a word, key, choice or value is not allowed, or the file cannot be read.
    """
    settings = str(run_config.get(SETTINGS, ""))
    if name := run_config.get(SETTINGS_FILE):
        try:
            settings = Path(os.environ[HOME], str(name)).read_text()
        except (OSError, KeyError) as error:
            reason = system_reason(error) if isinstance(error, OSError) else f"{HOME} is not set"
            raise ConfigError(SETTINGS_FILE, name, f"cannot be read: {reason}") from None
    if settings:
        found = json.loads(settings)
        return Submitted(read_experiment(found["experiment"]), found["words"], found["lease"])
    from server_app.config.composition import compose_experiment  # noqa: PLC0415  (with Hydra)
    from server_app.config.resuming import whole_words  # noqa: PLC0415

    text = str(run_config[OVERRIDES])
    try:
        words = shlex.split(text)
    except ValueError as error:
        allowed = f"cannot be split into words: {str(error).lower()}"
        raise ConfigError(OVERRIDES, text, allowed) from None
    words = whole_words(words)
    return Submitted(compose_experiment(words), words)
