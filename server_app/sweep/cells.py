"""The cells of a sweep: what Hydra's multirun makes of its words, each checked before any runs."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import OmegaConf

from server_app.choices import CONF, SWEEPS, names_in
from server_app.composition import compose_experiment, legible
from server_app.experiment import Experiment
from server_app.identity import code_hash, identity_of
from server_app.run_directory import runs_directory
from task.errors import ConfigError

SWEEP = f"{SWEEPS}="
DEFAULTS = ("engine=inprocess",)


@dataclass(frozen=True)
class Cell:
    """One run of a sweep.

    Attributes:
        words: the overrides that it is composed from.
        label: those of them that tell it from the others.
        experiment: what to run; None if it cannot be run.
        refusal: why it cannot, whatever data there are.
    """

    words: tuple[str, ...]
    label: str
    experiment: Experiment | None
    refusal: str = ""

    def reason(self) -> str:
        """Why it cannot be run, now that its data are looked for; empty if it can."""
        if self.experiment is None or self.experiment.divider().sites:
            return self.refusal
        try:
            self.experiment.source().expect()
        except ConfigError as error:
            return str(error)
        return ""

    @cached_property
    def identity(self) -> str:
        """What two cells share that would give the same result; see `identity_of`."""
        if self.experiment is None:
            return self.label
        return identity_of(self.experiment.model_dump(), code_hash())


def cells_of(words: Sequence[str]) -> list[Cell]:
    """Every cell that the words of a sweep mean, in their order, each once.

    Runs are in-process unless the words choose: the result is the same, bit for bit, and several
    runs at a time use the machine better than one run over several workers.

    Raises:
        ConfigError: a word cannot be read, or not a single cell can be run.
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
        raise ConfigError("output_dir", min(places), "a sweep has one; it cannot vary")
    return list(found.values())


def checked_cell(words: Sequence[str]) -> Experiment:
    """The experiment of a cell.

    Raises:
        ConfigError: it cannot be run, or not by a sweep.
    """
    experiment = compose_experiment(words)
    if experiment.run_id:
        raise ConfigError(
            "run_id", experiment.run_id, "a sweep names its runs itself; leave it out"
        )
    return experiment


def lines_of(words: Sequence[str]) -> list[list[str]]:
    """The sweeps that the words mean: themselves, or with ``sweep=NAME`` each line of that file.

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
    """Hydra's multirun: every combination of the words' values; a later word wins.

    Raises:
        ConfigError: a word cannot be read, or asks for a sweep without an end.
    """
    parser = OverridesParser.create()
    overrides = [parser.parse_override(legible(word)) for word in words]
    try:
        return list(BasicSweeper.split_arguments(overrides, None)[0])
    except HydraException as error:
        cure = f"{error}; write values as a,b or range(3)"
        raise ConfigError("sweep", " ".join(words), cure) from None


def labels(runs: Sequence[Sequence[str]]) -> list[str]:
    """Each run's words that not every run has; all of them where there is but one run."""
    common = set.intersection(*map(set, runs)) if len(runs) > 1 else set(DEFAULTS)
    return [" ".join(word for word in run if word not in common) for run in runs]
