"""Flower's run-config, which carries an experiment from the command to the ServerApp.

The key ``experiment`` holds the resolved experiment as JSON, which the ServerApp reads and does not
compose. The key ``overrides`` holds the words that a person typed. With ``flwr run`` a person sets
``overrides`` alone, and the ServerApp composes the experiment from them. The key ``lease`` holds
the path of a lease (`server_app.runs.lease`) that ``univarfl deploy run`` holds while it runs.
"""

import json
import shlex
from collections.abc import Mapping, Sequence

from flwr.app import UserConfig

from server_app.config.composition import compose_experiment
from server_app.config.experiment import Experiment, read_experiment
from server_app.config.resuming import whole_words
from task.errors import ConfigError

EXPERIMENT = "experiment"
OVERRIDES = "overrides"
LEASE = "lease"


def to_run_config(experiment: Experiment, words: Sequence[str], lease: str = "") -> UserConfig:
    """Return the run-config for an experiment.

    Args:
        experiment: the experiment, with its run directory.
        words: the words it was composed from; the record keeps them.
        lease: the path of the lease with which the run ends; empty for none.
    """
    return {
        EXPERIMENT: json.dumps(experiment.model_dump()),
        OVERRIDES: shlex.join(words),
        LEASE: lease,
    }


def to_toml(run_config: UserConfig) -> str:
    """Return a run-config as a TOML document."""
    lines = (
        f"{key} = {json.dumps(text, ensure_ascii=False)}\n" for key, text in run_config.items()
    )
    return "".join(lines)


def from_run_config(run_config: Mapping[str, object]) -> tuple[Experiment, list[str]]:
    """Return the experiment of a run-config, and the words it was composed from.

    Raises:
        ConfigError: a word, key, choice or value is not allowed.
    """
    text = str(run_config[OVERRIDES])
    try:
        words = shlex.split(text)
    except ValueError as error:
        allowed = f"cannot be split into words: {str(error).lower()}"
        raise ConfigError(OVERRIDES, text, allowed) from None
    if resolved := run_config.get(EXPERIMENT):
        return read_experiment(str(resolved)), words
    words = whole_words(words)
    return compose_experiment(words), words
