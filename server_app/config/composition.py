"""Composition of an experiment from ``conf/`` and the words that a person types."""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.errors import ConfigCompositionException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import InterpolationResolutionError, OmegaConfBaseException
from pydantic import ValidationError

from server_app.config.choices import CONF, choices, search_path
from server_app.config.compatibility.unused import check_used
from server_app.config.experiment import Experiment
from server_app.config.file_hash import hash_of
from server_app.config.given_weights import given_weights, start_hash, with_hash
from server_app.config.override_text import quoted
from server_app.config.vocabulary.overrides import Override, read_override
from server_app.config.vocabulary.suggestions import improved, unknown_choice, unknown_key
from server_app.config.vocabulary.word_forms import check_forms
from task.errors import ConfigError
from task.extensions import PLUS
from task.machine.files import from_home
from task.registry import first_error

PATHS = ("root", "repo")  # a hub data set's repo may be a local directory
FILES = {"after": "images", "clock": "trace"}  # settings of groups that are paths


def compose_experiment(words: Sequence[str]) -> Experiment:
    """Compose ``conf/config.yaml`` with Hydra overrides, and check every value.

    Raises:
        ConfigError: an override cannot be read or has no effect, or a key, choice or value is not
            allowed.
    """
    return check_settings(compose_settings(words), words)


def check_settings(settings: dict[str, Any], typed: Sequence[str]) -> Experiment:
    """Return the experiment of composed settings, once every value is checked.

    Args:
        settings: all settings, by group.
        typed: the words that a person typed; a resumed run has others as well.

    Raises:
        ConfigError: a value is not allowed, or a setting was typed and has no effect.
    """
    try:
        experiment = Experiment.model_validate(settings)
    except ValidationError as error:
        raise improved(first_error(error), settings) from None
    check_used({each.key: each.value for each in map(read_override, typed)}, settings)
    return experiment


def compose_settings(words: Sequence[str]) -> dict[str, Any]:
    """Compose ``conf/config.yaml`` with Hydra overrides, and resolve every reference.

    Keys and choices are checked, values are not.

    Raises:
        ConfigError: an override cannot be read, a key or choice is not allowed, or the file of
            `model.weights` or `clock.trace` cannot be read.
    """
    check_forms(words)
    overrides = [read_override(word) for word in words]
    values = {override.key: override.value for override in overrides}
    try:
        settings = OmegaConf.to_container(_composed(overrides), resolve=True)
    except MissingConfigException as error:
        raise _unknown_choice(error, values) from None
    except InterpolationResolutionError as error:
        raise _unresolved(error, values) from None
    except (ConfigCompositionException, OmegaConfBaseException) as error:
        raise _unknown_key(error, values) from None
    except ConfigError:
        raise
    except Exception as error:  # Hydra raises errors of many types for words that it cannot use
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise ConfigError("overrides", shlex.join(words), f"cannot be composed: {reason}") from None
    assert isinstance(settings, dict)
    settings["model"] = with_hash(settings["model"])
    if (given := given_weights(settings["model"])) and settings["secure"]["mode"] == "masked":
        settings["secure"]["start"] = start_hash(given)
    settings["clock"] = _with_trace_hash(settings["clock"])
    return {str(key): value for key, value in settings.items()}


def chosen_files(words: Sequence[str]) -> dict[str, list[str]]:
    """Return the files of ``conf/`` that an experiment uses, by group.

    Of two files that set the same key, that of the earlier group counts.
    """
    overrides, methods = _read_methods([read_override(word) for word in words])
    with initialize_config_dir(str(CONF), version_base=None):
        config = compose("config", overrides, return_hydra_config=True)
    found = {group: [name] for group, name in config.hydra.runtime.choices.items() if name}
    found["method"] = methods or found["method"]
    return {group: names for group, names in found.items() if group in choices()}


def _composed(overrides: Sequence[Override]) -> DictConfig:
    """Compose with Hydra; ``method=b+a`` takes both files and gets the one name ``a+b``."""
    words, methods = _read_methods(overrides)
    # For partition=sites; without names the partition itself says what is missing.
    OmegaConf.register_new_resolver("count", lambda names: max(1, len(names or ())), replace=True)
    with initialize_config_dir(str(CONF), version_base=None):
        config = compose("config", words)
    if len(methods) > 1:
        config.method.name = PLUS.join(methods)
    if config.data.get("root") == "":
        allowed = "must name a directory; it is empty, as if a shell variable were not set"
        raise ConfigError("data.root", "", allowed)
    if config.data.get("download") and config.data.root is None:
        config.data.root = downloaded(config.data.name)
    for key, path in local_paths(config.data).items():
        config.data[key] = path
    for group, key in FILES.items():
        if path := config[group].get(key):
            config[group][key] = str(from_home(str(path)).absolute())
    return config


def _with_trace_hash(clock: dict[str, Any]) -> dict[str, Any]:
    """Return the clock's settings, with the hash of the file that describes the devices."""
    if not clock.get("trace"):
        return clock
    found = hash_of(
        "clock.trace",
        Path(clock["trace"]),
        "name a CSV file of devices; a resumed run needs the file that it began with",
    )
    return {**clock, "trace_sha256": found}


def _read_methods(overrides: Sequence[Override]) -> tuple[list[str], list[str]]:
    """Return the words for Hydra, and the names of the methods if a word chooses them.

    Hydra is told where other packages keep their settings; see `task.extensions`.

    Raises:
        ConfigError: a method is unknown.
    """
    words = [override.text for override in overrides if override.key != "method"]
    chosen = [override.value for override in overrides if override.key == "method"]
    names = sorted(part.strip(" '\"") for part in chosen[-1].split(PLUS)) if chosen else []
    if not set(names) <= set(choices()["method"]):
        raise unknown_choice("method", chosen[-1])
    if names:
        words.append(f"method=[{','.join(names)}]")
    if places := ",".join(quoted(f"file://{path}") for path in search_path()):
        words.append(f"hydra.searchpath=[{places}]")
    return words, names


def downloaded(name: str) -> str:
    """Return where a data set is downloaded to without a root: where sweeps look for it."""
    return str(Path(os.environ.get("DATA", "data"), name))


def local_paths(data: Mapping[str, Any]) -> dict[str, str]:
    """Return the paths of a data set that lie on this machine, absolute, by their key."""
    typed = {key: from_home(str(data[key])) for key in PATHS if data.get(key)}
    return {
        key: str(path.absolute()) for key, path in typed.items() if key == "root" or path.is_dir()
    }


def _unknown_choice(error: MissingConfigException, values: Mapping[str, str]) -> ConfigError:
    group, _, choice = str(error.missing_cfg_file).partition("/")
    return unknown_choice(group, values.get(group, choice))


def _unresolved(error: InterpolationResolutionError, values: Mapping[str, str]) -> ConfigError:
    key = str(error.full_key or "overrides")
    reason = str(error).splitlines()[0]
    return ConfigError(key, values.get(key, ""), f"its reference has no value: {reason}")


def _unknown_key(error: Exception, values: Mapping[str, str]) -> ConfigError:
    lines = [line for line in str(error).splitlines() if line.strip()]
    if added := re.search(r"already at '([^']+)'", lines[0]):
        key = added[1]
        allowed = f"has a value already; write {key}={values.get(key, '')}, without '+'"
        return ConfigError(key, values.get(key, ""), allowed)
    unknown = re.search(r"Could not override '([^']+)'", lines[0])
    if unknown is None:
        return ConfigError("overrides", " ".join(values), " ".join(lines))
    key = unknown[1]
    chosen = [f"{group}={values[group]}" for group in choices() if group in values]
    config = OmegaConf.to_container(_composed([read_override(word) for word in chosen]))
    assert isinstance(config, dict)
    return unknown_key(key, values.get(key, ""), {str(name): part for name, part in config.items()})
