"""From ``conf/`` and a person's overrides to a checked `Experiment`."""

import difflib
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import ValidationError

from server_app.choices import CONF, choices
from server_app.quoting import quoted
from task.errors import ConfigError
from task.files import from_home
from task.registry import PLUS, first_error

if TYPE_CHECKING:
    from server_app.experiment import Experiment

PATHS = ("root", "repo")  # a hub data set's repo may be a local directory


def compose_experiment(overrides: Sequence[str]) -> "Experiment":
    """Compose ``conf/config.yaml`` with Hydra overrides and check every value.

    Raises:
        ConfigError: an override cannot be read, or a key, choice or value is not allowed.
    """
    return checked(compose_config(overrides))


def checked(config: DictConfig) -> "Experiment":
    """The experiment that a composed configuration describes.

    Raises:
        ConfigError: a value is not allowed.
    """
    # Imported here because it brings torch, which takes seconds that Flower can start in.
    from server_app.experiment import Experiment  # noqa: PLC0415

    try:
        return Experiment.model_validate(OmegaConf.to_container(config, resolve=True))
    except ValidationError as error:
        raise first_error(error) from None


def compose_config(overrides: Sequence[str]) -> DictConfig:
    """Compose ``conf/config.yaml`` with Hydra overrides; its values are not checked yet.

    Raises:
        ConfigError: an override cannot be read, or a key or choice is not allowed.
    """
    words = [legible(word) for word in overrides]
    values = dict(map(_key_and_value, words))
    try:
        return _composed(words)
    except MissingConfigException as error:
        raise _unknown_choice(error, values) from None
    except (ConfigCompositionException, OmegaConfBaseException) as error:
        raise _unknown_key(error, values) from None
    except ConfigError:
        raise
    except Exception as error:  # Hydra has no one type for what it cannot make sense of
        said = str(error).strip().split("\n")[0] or type(error).__name__
        raise ConfigError("overrides", shlex.join(words), f"cannot be composed: {said}") from None


def _composed(overrides: Sequence[str]) -> DictConfig:
    """Hydra's composition; ``method=b+a`` takes both files and has the one name ``a+b``."""
    words = [word for word in overrides if not word.startswith("method=")]
    chosen = [word.partition("=")[2] for word in overrides if word.startswith("method=")]
    names = sorted(part.strip(" '\"") for part in chosen[-1].split(PLUS)) if chosen else []
    for name in names:
        if name not in choices()["method"]:
            allowed = f"choose one of {', '.join(choices()['method'])}"
            raise ConfigError("method", chosen[-1], allowed + ", or join several by +")
    if names:
        words.append(f"method=[{','.join(names)}]")
    # For partition=sites; without names the partition itself says what is missing.
    OmegaConf.register_new_resolver("count", lambda names: max(1, len(names or ())), replace=True)
    with initialize_config_dir(str(CONF), version_base=None):
        config = compose("config", words)
    if len(names) > 1:
        config.method.name = PLUS.join(names)
    for key, path in local_paths(config.data).items():
        config.data[key] = path
    return config


def local_paths(data: Mapping[str, Any]) -> dict[str, str]:
    """The data set's paths on this machine, absolute, so that every process finds the same."""
    typed = {key: from_home(str(data[key])) for key in PATHS if data.get(key)}
    return {
        key: str(path.absolute()) for key, path in typed.items() if key == "root" or path.is_dir()
    }


def legible(word: str) -> str:
    """An override that Hydra can read: a value that it cannot, such as a path, becomes a string."""
    parser = OverridesParser.create()
    key, _, value = word.partition("=")
    for attempt in (word, f"{key}={quoted(value)}"):
        try:
            parser.parse_override(attempt)
        except HydraException:
            if not value:
                break
            if value[0] in "[{'\"":
                cure = (
                    "cannot be read; leave no space after a comma, or quote the whole word; a name "
                    "with a space is quoted by itself, as in data.classes=['a b','c']"
                )
                raise ConfigError("override", word, cure) from None
        else:
            return attempt
    raise ConfigError("override", word, "cannot be read; write key=value, as in alpha=0.05")


def _key_and_value(text: str) -> tuple[str, str]:
    """An override's key and value, as typed; refused when it is several values."""
    override = OverridesParser.create().parse_override(text)
    key, value = override.key_or_group, text.partition("=")[2]
    if override.is_sweep_override():
        raise ConfigError(key, value, "must be one value, not several")
    return key, value


def _unknown_choice(error: MissingConfigException, values: dict[str, str]) -> ConfigError:
    missing = str(error.missing_cfg_file)
    group, _, choice = missing.partition("/")
    options = ", ".join(choices()[group])
    return ConfigError(group, values.get(group, choice), f"choose one of {options}")


def _unknown_key(error: Exception, values: dict[str, str]) -> ConfigError:
    lines = [line for line in str(error).splitlines() if line.strip()]
    found = re.search(r"Could not override '([^']+)'", lines[0])
    if found is None:
        return ConfigError("conf", CONF, " ".join(lines))
    key = found[1]
    chosen = [f"{group}={values[group]}" for group in choices() if group in values]
    config = _composed(chosen)
    group = key.partition(".")[0]
    if group != key and OmegaConf.is_config(config.get(group)):
        choice = config[group].get("name")
        keys = ", ".join(name for name in config[group] if name != "name")
        hint = f"{f'{group}={choice}' if choice else group} has {keys or 'no settings'}"
    elif close := difflib.get_close_matches(key, list(config), n=1, cutoff=0.5):
        hint = f"did you mean {close[0]}?"
    else:
        hint = "'univarfl train --help' tells the keys"
    return ConfigError(key, values.get(key, ""), f"unknown key; {hint}")
