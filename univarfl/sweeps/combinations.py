"""The combinations of a sweep's values, as words; nothing here imports PyTorch or Flower."""

import itertools
import shlex
from collections.abc import Sequence

from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from server_app.config.choices import CONF, SWEEPS, names_in
from server_app.config.overrides import legible, parse
from server_app.config.vocabulary import check_forms, nearest
from task.errors import ConfigError

SWEEP = f"{SWEEPS}="


def combinations(words: Sequence[str]) -> list[list[str]]:
    """Return the words of each run of a sweep; none of them is checked by composing it.

    Raises:
        ConfigError: a word cannot be read, or there is no such table.
    """
    check_forms(words)
    return [run for line in lines_of(words) for run in expand(line)]


def lines_of(words: Sequence[str]) -> list[list[str]]:
    """Return the words, or with ``sweep=NAME`` the words of each line of ``conf/sweep/NAME.yaml``.

    Raises:
        ConfigError: there is no such file.
    """
    names = [word.removeprefix(SWEEP) for word in words if word.startswith(SWEEP)]
    rest = [word for word in words if not word.startswith(SWEEP)]
    if not names:
        return [rest]
    options = names_in(SWEEPS)
    if names[-1] not in options:
        meant = nearest(names[-1], options)
        likely = f"did you mean sweep={meant}? " if meant else ""
        raise ConfigError("sweep", names[-1], f"{likely}choose one of {', '.join(options)}")
    lines = OmegaConf.to_container(OmegaConf.load(CONF / SWEEPS / f"{names[-1]}.yaml"))
    assert isinstance(lines, list)
    return [[*shlex.split(line), *rest] for line in lines]


def expand(words: Sequence[str]) -> list[list[str]]:
    """Return every combination of the words' values, in the order of Hydra's multirun.

    The last word varies fastest. Of two words with the same key, the later one counts.

    Raises:
        ConfigError: a word cannot be read, has no values, or has values that cannot be listed, as
            an interval.
    """
    values: dict[str, list[str]] = {}
    for word in words:
        override = parse(legible(word))
        try:
            found = values_of(override)
        except (HydraException, OmegaConfBaseException, ValueError) as error:
            reason = str(error).splitlines()[0]
            cure = f"its values cannot be listed ({reason}); write them as a,b or range(3)"
            raise ConfigError("sweep", word, cure) from None
        key = override.get_key_element()
        if not found:
            cure = f"has no values; write '{key}=range(1,4)' or {key}=1,2,3"
            raise ConfigError(key, word.partition("=")[2], cure)
        values[key] = [f"{key}={value}" for value in found]
    return [list(run) for run in itertools.product(*values.values())]


def values_of(override: Override) -> list[str]:
    """Return the values of a word, one or several.

    Raises:
        HydraException: they cannot be listed.
    """
    if not override.is_sweep_override():
        return [override.get_value_element_as_str()]
    if not override.is_discrete_sweep():
        raise HydraException("an interval has no list of values")
    return list(override.sweep_string_iterator())


def labels(runs: Sequence[Sequence[str]]) -> list[str]:
    """Return the words of each run that not all runs have; all words if there is one run."""
    common = set.intersection(*map(set, runs)) if len(runs) > 1 else set[str]()
    return [" ".join(word for word in run if word not in common) for run in runs]
