"""The cells of a sweep: every combination of its values, each checked before any is run."""

import itertools
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from server_app.config.choices import CONF, SWEEPS, names_in
from server_app.config.composition import compose_experiment
from server_app.config.experiment import Experiment
from server_app.config.overrides import legible, parse
from server_app.runs.directory import runs_directory
from server_app.runs.identity import code_of, identity_of
from task.errors import ConfigError

SWEEP = f"{SWEEPS}="
DEFAULTS = ("engine=inprocess",)


@dataclass(frozen=True)
class Cell:
    """One run of a sweep.

    Attributes:
        words: the overrides that it is composed from.
        label: the overrides in which it differs from other cells.
        experiment: its configuration; None if it is invalid.
        refusal: why its configuration is invalid.
    """

    words: tuple[str, ...]
    label: str
    experiment: Experiment | None
    refusal: str = ""

    def reason(self) -> str:
        """Return why it cannot be run, such as missing data; empty if it can."""
        if self.experiment is None or self.experiment.partitioner().sites:
            return self.refusal
        try:
            self.experiment.source().check_files()
        except ConfigError as error:
            return str(error)
        return ""

    @cached_property
    def identity(self) -> str:
        """A hash of settings and code; see `identity_of`. An invalid cell has its words."""
        if self.experiment is None:
            return shlex.join(self.words)
        config = self.experiment.model_dump()
        return identity_of(config, code_of(config))

    @cached_property
    def settings(self) -> str:
        """A hash of the settings alone; an invalid cell has its words."""
        if self.experiment is None:
            return shlex.join(self.words)
        return identity_of(self.experiment.model_dump(), None)


def cells_of(words: Sequence[str]) -> list[Cell]:
    """Return every cell of a sweep, in the order of its words, without repetitions.

    Runs use ``engine=inprocess`` unless the words choose another engine: the result is the same,
    bit for bit, and several runs at a time use the machine better than one run on several workers.

    Raises:
        ConfigError: a word cannot be read, or no cell is valid.
    """
    runs = [run for line in lines_of(words) for run in expand([*DEFAULTS, *line])]
    found: dict[str, Cell] = {}
    errors, places = [], set()
    for run, label in zip(runs, labels(runs), strict=True):
        try:
            experiment = checked_cell(run)
            places.add(runs_directory(experiment))
            cell = Cell(tuple(run), label, experiment)
        except ConfigError as error:
            errors.append(error)
            cell = Cell(tuple(run), label, None, str(error))
        found.setdefault(cell.identity, cell)
    if all(cell.experiment is None for cell in found.values()):
        raise errors[0]
    if len(places) > 1:
        raise ConfigError("output_dir", min(places), "a sweep has one output_dir; it cannot vary")
    return list(found.values())


def checked_cell(words: Sequence[str]) -> Experiment:
    """Return the experiment of a cell.

    Raises:
        ConfigError: it is invalid, or has a `run_id`.
    """
    experiment = compose_experiment(words)
    if experiment.run_id:
        raise ConfigError(
            "run_id", experiment.run_id, "a sweep names its runs itself; leave it out"
        )
    return experiment


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
        raise ConfigError("sweep", names[-1], f"choose one of {', '.join(options)}")
    lines = OmegaConf.to_container(OmegaConf.load(CONF / SWEEPS / f"{names[-1]}.yaml"))
    assert isinstance(lines, list)
    return [[*shlex.split(line), *rest] for line in lines]


def expand(words: Sequence[str]) -> list[list[str]]:
    """Return every combination of the words' values, in the order of Hydra's multirun.

    The last word varies fastest. Of two words with the same key, the later one counts.

    Raises:
        ConfigError: a word cannot be read, or its values cannot be listed, as those of an interval.
    """
    values: dict[str, list[str]] = {}
    for word in words:
        override = parse(legible(word))
        try:
            found = values_of(override)
        except (HydraException, OmegaConfBaseException) as error:
            reason = str(error).splitlines()[0]
            cure = f"its values cannot be listed ({reason}); write them as a,b or range(3)"
            raise ConfigError("sweep", word, cure) from None
        key = override.get_key_element()
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
    common = set.intersection(*map(set, runs)) if len(runs) > 1 else set(DEFAULTS)
    return [" ".join(word for word in run if word not in common) for run in runs]
