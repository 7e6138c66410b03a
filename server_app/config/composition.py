"""Composition of an experiment from ``conf/`` and the words that a person types."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    InterpolationResolutionError,
    OmegaConfBaseException,
)

from server_app.config.choices import choices
from server_app.config.chosen_files import chosen_files
from server_app.config.compatibility.unused import check_used
from server_app.config.experiment import Experiment
from server_app.config.file_hash import hash_of, keep, start_hash, with_hash
from server_app.config.overrides import Override, parse, read_override
from server_app.config.recorded_words import FILES, downloaded, local_paths
from server_app.config.vocabulary import check_forms, improved, unknown_key
from task.errors import ConfigError
from task.given_weights import given_weights
from task.machine.files import from_home
from task.registry import explained, named

WITH_SCHEMA = "task.data.sources.families.schema_file:with_schema"  # of tables of numbers


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
        with explained():
            experiment = Experiment.model_validate(settings)
        # It imports PyTorch and Flower, which a value that is refused above does not need.
        from server_app.config.rules import check_experiment  # noqa: PLC0415

        check_experiment(experiment)
    except ConfigError as error:
        raise improved(error, settings) from None
    check_used({each.key: each.value for each in map(read_override, typed)}, settings)
    return experiment


def compose_settings(words: Sequence[str]) -> dict[str, Any]:
    """Compose ``conf/config.yaml`` with Hydra overrides, and resolve every reference.

    Keys and choices are checked, values are not.

    Raises:
        ConfigError: an override cannot be read, a key or choice is not allowed, or the file of
            `model.weights`, `clock.trace` or `data.schema` cannot be read.
    """
    check_forms(words)
    overrides = [read_override(word) for word in words]
    try:
        settings = OmegaConf.to_container(_composed(overrides), resolve=True)
    except ConfigError:
        raise
    except InterpolationResolutionError as error:
        raise _unresolved(error, overrides) from None
    except Exception as error:  # Hydra raises errors of many types for words that it cannot use
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise ConfigError("overrides", shlex.join(words), f"cannot be composed: {reason}") from None
    assert isinstance(settings, dict)
    settings["model"] = with_hash(settings["model"])
    if given := given_weights(settings["model"]):
        if settings["tune"]["name"] != "all":
            keep(given)
        elif settings["secure"]["mode"] == "masked":
            settings["secure"]["start"] = start_hash(given)
    settings["clock"] = _with_trace_hash(settings["clock"])
    if "schema" in settings["data"]:
        settings["data"] = named(WITH_SCHEMA)(settings["data"])
    return {str(key): value for key, value in settings.items()}


def _composed(overrides: Sequence[Override]) -> DictConfig:
    """Return the settings of the chosen files with the values that words set."""
    # For partition=sites; without names the partition itself says what is missing.
    OmegaConf.register_new_resolver("count", lambda names: max(1, len(names or ())), replace=True)
    config, _ = chosen_files(overrides)
    groups = choices()
    for override in overrides:
        if override.key not in groups:
            _set(config, override)
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


def _set(config: DictConfig, override: Override) -> None:
    """Set the one value of a word, as Hydra does.

    Raises:
        ConfigError: the key is unknown, ``+key`` has a value already, or it cannot be set.
    """
    parsed = parse(override.text)
    value = parsed.value()
    single = not isinstance(value, dict | list)
    new = parsed.is_add() or parsed.is_force_add()
    try:
        if parsed.is_add() and single and OmegaConf.select(config, override.key) is not None:
            allowed = f"has a value already; write {override.key}={override.value}, without '+'"
            raise ConfigError(override.key, override.value, allowed)
        OmegaConf.update(config, override.key, value, merge=True, force_add=new)
    except (ConfigAttributeError, ConfigKeyError):
        offered = OmegaConf.to_container(config)
        assert isinstance(offered, dict)
        settings = {str(name): part for name, part in offered.items()}
        raise unknown_key(override.key, override.value, settings) from None
    except (OmegaConfBaseException, IndexError) as error:
        reason = str(error).strip().split("\n")[0]
        raise ConfigError(override.key, override.value, f"cannot be set: {reason}") from None


def _unresolved(error: InterpolationResolutionError, overrides: Sequence[Override]) -> ConfigError:
    values = {override.key: override.value for override in overrides}
    key = str(error.full_key or "overrides")
    reason = str(error).splitlines()[0]
    return ConfigError(key, values.get(key, ""), f"its reference has no value: {reason}")
