"""The cells of a sweep: every combination of its values, each checked before any is run."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from server_app.config.composition import compose_experiment
from server_app.config.differences import HOW_IT_RUNS
from server_app.config.experiment import Experiment
from server_app.config.override_text import flat
from server_app.runs.directory import runs_directory
from server_app.runs.identity import code_of, identity_of
from task.errors import ConfigError
from univarfl.sweeps.combinations import combinations, labels


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

    Raises:
        ConfigError: a word cannot be read, no cell is valid, or cells differ in settings that
            decide no result.
    """
    runs = combinations(words)
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
        check_same(found.setdefault(cell.identity, cell), cell)
    if all(cell.experiment is None for cell in found.values()):
        raise errors[0]
    if len(places) > 1:
        raise ConfigError("output_dir", min(places), "a sweep has one output_dir; it cannot vary")
    return list(found.values())


def check_same(first: Cell, second: Cell) -> None:
    """Refuse two cells with the same result that differ in how they run.

    Raises:
        ConfigError: they differ, so that one of them would not run.
    """
    if first.experiment is None or second.experiment is None:
        return
    experiments = (first.experiment, second.experiment)
    one, other = (flat(each.model_dump(include=set(HOW_IT_RUNS))) for each in experiments)
    for key, value in other.items():
        if one[key] != value:
            allowed = "decides no result, so a sweep cannot vary it; give one value"
            raise ConfigError(key, value, allowed)


def checked_cell(words: Sequence[str]) -> Experiment:
    """Return the experiment of a cell.

    Raises:
        ConfigError: it is invalid, or names a run to write or to resume.
    """
    experiment = compose_experiment(words)
    if experiment.run_id:
        raise ConfigError(
            "run_id", experiment.run_id, "a sweep names its runs itself; leave it out"
        )
    if experiment.resume:
        allowed = "the same sweep again continues what was interrupted; leave it out"
        raise ConfigError("resume", experiment.resume, allowed)
    return experiment
