"""What a benchmark runs: cells, methods, seeds, and the values that are tried for each method."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from server_app.config.choices import CONF
from server_app.config.vocabulary import check_forms, unknown_choice
from task import registry
from task.errors import ConfigError, system_reason
from task.extensions import PLUS
from task.machine.regular import regular
from task.registry import first_error
from univarfl.sweeps.combinations import expand

PLAN = CONF / "benchmark.yaml"
LEAN = "watch.tensorboard=false"
TUNABLE = ("method.", "optim.")
SET_BY_PLAN = ("method", "seed", "output_dir")
QUOTED = " \t\n'\""  # words with these are more than one plain setting


class Tuning(BaseModel):
    """How the values of each method are chosen.

    Attributes:
        cell: the label of the cell on which they are tried.
        seeds: of the trials; none of them is a seed of the tables.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    cell: str
    seeds: list[int] = Field(min_length=1)


class Plan(BaseModel):
    """A benchmark, as in ``conf/benchmark.yaml``.

    Attributes:
        seeds: of the runs in the tables.
        tuning: how values are chosen.
        cells: the settings of each cell, by its label.
        methods: by name, the setting that is tuned with its values, as a word of a sweep.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    seeds: list[int] = Field(min_length=1)
    tuning: Tuning
    cells: dict[str, str] = Field(min_length=1)
    methods: dict[str, str] = Field(min_length=1)


@dataclass(frozen=True)
class Entry:
    """One run of a benchmark.

    Attributes:
        cell: the label of its cell.
        method: the name of its method.
        seed: its seed.
        value: the word of the tuned setting; "" for the method's own value.
        words: all of its overrides.
    """

    cell: str
    method: str
    seed: int
    value: str
    words: tuple[str, ...]


def read_plan(path: Path) -> Plan:
    """Return the benchmark that a file describes.

    Raises:
        ConfigError: the file cannot be read, or says something else.
    """
    try:
        content = yaml.safe_load(regular(path).read_text())
        if not isinstance(content, dict):
            parts = ", ".join(Plan.model_fields)
            raise ConfigError("--plan", path, f"is no plan; it must have {parts}, as in {PLAN}")
        plan = Plan.model_validate(content)
    except (OSError, UnicodeDecodeError) as error:
        reason = system_reason(error) if isinstance(error, OSError) else "it is not text"
        raise ConfigError("--plan", path, f"cannot be read: {reason}") from None
    except yaml.YAMLError as error:
        raise ConfigError("--plan", path, f"is not YAML: {str(error).splitlines()[0]}") from None
    except ValidationError as error:
        raise first_error(error).under(f"--plan {path.name}") from None
    if plan.tuning.cell not in plan.cells:
        known = f"name one of the cells: {', '.join(plan.cells)}"
        raise ConfigError("tuning.cell", plan.tuning.cell, known)
    if used := sorted(set(plan.seeds) & set(plan.tuning.seeds)):
        raise ConfigError("tuning.seeds", used, "must not be seeds of the tables")
    for what, seeds in (("seeds", plan.seeds), ("tuning.seeds", plan.tuning.seeds)):
        if len(set(seeds)) < len(seeds):
            raise ConfigError(what, seeds, "names a seed twice")
    for cell, words in plan.cells.items():
        check_cell(cell, words)
    for method in plan.methods:
        check_method(method)
    counts = {len(values_of(method, word)) for method, word in plan.methods.items()}
    if len(counts) > 1:
        raise ConfigError(
            "methods", sorted(counts), "every method must have the same number of values"
        )
    return plan


def check_method(name: str) -> None:
    """Refuse a method that is unknown, or whose runs have no accuracy of one model.

    Args:
        name: of a method, or of several joined by ``+``.

    Raises:
        ConfigError: it is refused.
    """
    for member in name.split(PLUS):
        if member not in registry.names("method"):
            raise unknown_choice("method", name)
        if registry.component_class("method", member).personalises:
            allowed = "has no accuracy of one model, by which methods are ranked; leave it out"
            raise ConfigError("method", name, allowed)


def check_cell(cell: str, words: str) -> None:
    """Refuse a cell that is not one setting of the data and the training.

    Raises:
        ConfigError: it cannot be read, has several values, or sets what the plan sets.
    """
    key = f"cells.{cell}"
    try:
        runs = expand(shlex.split(words))
    except ValueError as error:
        raise ConfigError(key, words, f"cannot be read: {error}") from None
    if len(runs) > 1:
        raise ConfigError(key, words, "must have one value for each setting")
    if any(word.partition("=")[0] in SET_BY_PLAN for word in runs[0]):
        raise ConfigError(key, words, f"must not set {', '.join(SET_BY_PLAN)}")


def values_of(method: str, word: str) -> list[str]:
    """Return the words of one setting's values.

    Raises:
        ConfigError: it is not a setting with values that can be listed.
    """
    if not word.startswith(TUNABLE) or any(mark in word for mark in QUOTED):
        allowed = f"must be one setting of {' or '.join(TUNABLE)} with its values"
        raise ConfigError(f"methods.{method}", word, allowed)
    return [run[0] for run in expand([word])]


def trials(plan: Plan, method: str) -> Iterator[Entry]:
    """Yield the runs by which a method's value is chosen."""
    for value in values_of(method, plan.methods[method]):
        for seed in plan.tuning.seeds:
            yield entry(plan, plan.tuning.cell, method, seed, value)


def rows(plan: Plan, method: str, chosen: str) -> Iterator[Entry]:
    """Yield the runs of a method's rows: with the chosen value, and with its own values."""
    for cell in plan.cells:
        for value in dict.fromkeys((chosen, "")):
            for seed in plan.seeds:
                yield entry(plan, cell, method, seed, value)


def entry(plan: Plan, cell: str, method: str, seed: int, value: str) -> Entry:
    """Return one run; the tuned value comes last and takes precedence."""
    words = [*shlex.split(plan.cells[cell]), f"method={method}", f"seed={seed}"]
    return Entry(cell, method, seed, value, (*words, *([value] if value else []), LEAN))


def with_methods(plan: Plan, more: Mapping[str, str]) -> Plan:
    """Return a plan with further methods, each with the word of its tuned setting."""
    return plan.model_copy(update={"methods": {**plan.methods, **more}})


def read_words(plan: Plan, words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the methods that the words of a command name, and those that the plan does not have.

    Raises:
        ConfigError: a method is unknown, or a word is neither ``method=..`` nor the tuned setting
            of one new method.
    """
    check_forms(words)
    named = [word.removeprefix("method=") for word in words if word.startswith("method=")]
    others = [word for word in words if not word.startswith("method=")]
    methods = [name for names in named for name in names.split(",")] or list(plan.methods)
    new = [name for name in methods if name not in plan.methods]
    for name in new:
        check_method(name)
    count = len(values_of(*next(iter(plan.methods.items()))))
    if not others and not new:
        return methods, {}
    if not others:
        rates = ",".join(f"{0.1 / 2**place:g}" for place in range(count))
        tried = f"method={new[0]} optim.lr={rates}"
        allowed = f"is not in the plan; say which setting is tuned, as in {tried}"
        raise ConfigError("method", new[0], allowed)
    key, _, value = others[-1].partition("=")
    if len(others) > 1 or len(new) != 1:
        allowed = "give one setting with its values, for one method that the plan does not have"
        raise ConfigError(key, value, allowed)
    if not key.startswith(TUNABLE):
        raise ConfigError(key, value, f"must be a setting of {' or '.join(TUNABLE)}")
    if len(values_of(new[0], others[0])) != count:
        raise ConfigError(key, value, f"give {count} values, as many as every method has")
    return methods, {new[0]: others[0]}
