"""From ``conf/`` and a person's overrides to a checked `Experiment`."""

import difflib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import ValidationError

from server_app.experiment import Experiment
from task.errors import ConfigError
from task.registry import first_error

CONF = Path(__file__).resolve().parent.parent / "conf"


def compose_experiment(overrides: Sequence[str]) -> Experiment:
    """Compose ``conf/config.yaml`` with Hydra overrides and check every value.

    Raises:
        ConfigError: an override cannot be read, or a key, choice or value is not allowed.
    """
    values = dict(_typed(overrides))
    try:
        with initialize_config_dir(str(CONF), version_base=None):
            config = OmegaConf.to_container(compose("config", list(overrides)), resolve=True)
    except MissingConfigException as error:
        raise _unknown_choice(error, values) from None
    except (ConfigCompositionException, OmegaConfBaseException) as error:
        raise _unknown_key(error, values) from None
    try:
        return Experiment.model_validate(config)
    except ValidationError as error:
        raise first_error(error) from None


def _typed(overrides: Sequence[str]) -> Iterator[tuple[str, Any]]:
    parser = OverridesParser.create()
    for text in overrides:
        try:
            override = parser.parse_override(text)
        except HydraException:
            raise ConfigError(
                "override", text, "cannot be read; write key=value, as in alpha=0.05"
            ) from None
        if override.is_sweep_override():
            key = override.key_or_group
            raise ConfigError(key, override.get_value_element_as_str(), "one value, not several")
        yield override.key_or_group, override.get_value_element_as_str()


def _unknown_choice(error: MissingConfigException, values: dict[str, Any]) -> ConfigError:
    missing = str(error.missing_cfg_file)
    group, _, choice = missing.rpartition("/")
    options = ", ".join(error.options or ())
    return ConfigError(group, values.get(group, choice), f"choose one of {options}")


def _unknown_key(error: Exception, values: dict[str, Any]) -> ConfigError:
    lines = [line for line in str(error).splitlines() if line.strip()]
    found = re.search(r"Could not override '([^']+)'", lines[0])
    if found is None:
        return ConfigError("conf", CONF, " ".join(lines))
    key = found[1]
    close = difflib.get_close_matches(key, list(_known_keys()), n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}?" if close else "'univarfl train --help' lists the keys"
    return ConfigError(key, values.get(key, ""), f"unknown key; {hint}")


def _known_keys() -> Iterator[str]:
    """Every key of the default configuration, and every group, as they are typed."""
    with initialize_config_dir(str(CONF), version_base=None):
        config = compose("config")
    for name, value in config.items():
        key = str(name)
        yield key
        if OmegaConf.is_config(value):
            yield from (f"{key}.{inner}" for inner in map(str, value))


def choices() -> dict[str, list[str]]:
    """The options of each configuration group, by its folder's name."""
    groups = sorted(path for path in CONF.iterdir() if path.is_dir())
    return {group.name: sorted(file.stem for file in group.glob("*.yaml")) for group in groups}
