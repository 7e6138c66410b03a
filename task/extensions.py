"""Components of other installed packages, found by their entry points.

An entry point of a group in `GROUPS` has a component's name and the module that defines it; the
module has the same name. The package's settings for it are in its ``conf/``, as in ours. Nothing of
a package is imported before a run chooses one of its components.
"""

import functools
import hashlib
import importlib
import importlib.util
import json
import logging
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points, packages_distributions
from pathlib import Path
from typing import Any

from task.errors import ConfigError

PLUS = "+"  # joins the names of several methods
GROUPS = {
    "data": "univarfl.data",
    "model": "univarfl.models",
    "method": "univarfl.methods",
    "strategy": "univarfl.strategies",
}
BASES = {  # of the components of each group; our own are modules beside that of their base class
    "method": "task.methods.base:Method",
    "model": "task.models.base:ModelSettings",
    "tune": "task.tuning.base:Tuning",
    "data": "task.data.sources.base:Source",
    "partition": "task.data.partitions.base:Partitioner",
    "augmentation": "task.data.augmentations.base:Augmentation",
    "strategy": "server_app.aggregation.strategies.base:StrategySettings",
    "guard": "server_app.aggregation.guards.base:Guard",
    "after": "server_app.rounds.after.base:AfterTraining",
    "clock": "server_app.rounds.clock.base:Clock",
    "participation": "server_app.rounds.participation.base:Participation",
}
PACKAGES = {group: place.rpartition(".base:")[0] for group, place in BASES.items()}
TARGET = re.compile(r"[A-Za-z_]\w*(\.\w+)*:[A-Za-z_]\w*")  # PACKAGE.MODULE:NAME
SHOWN = 40  # characters of a text that is no experiment
ON_CLIENTS = ("data", "method", "model")  # the groups whose components clients run

logger = logging.getLogger("univarfl")


@dataclass(frozen=True)
class Extension:
    """A component of another package.

    Attributes:
        group: its group in the configuration.
        name: its name in the configuration.
        package: the name under which its package is installed.
        module: the module that defines it.
        directory: the directory of the top-level Python package that the module belongs to; its
            file, if it is a single module.
    """

    group: str
    name: str
    package: str
    module: str
    directory: Path

    @property
    def conf(self) -> Path:
        """The directory with its YAML file, in a directory with the name of its group."""
        return self.directory / "conf"

    @property
    def settings(self) -> Path:
        """Its YAML file."""
        return self.conf / self.group / f"{self.name}.yaml"

    def content(self) -> str:
        """Return the SHA-256 of the package's Python files: their relative paths and contents."""
        digest = hashlib.sha256()
        found = sorted(self.directory.rglob("*.py")) if self.directory.is_dir() else []
        for path in found or [self.directory]:
            digest.update(f"{path.relative_to(self.directory).as_posix()}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()


@functools.cache
def extensions(group: str) -> dict[str, Extension]:
    """Return the components of other packages in a group of the configuration, by name.

    Our own names have precedence, then those of the alphabetically first package. What cannot be
    used is left out with a warning.
    """
    if group not in GROUPS:
        return {}
    found: dict[str, Extension] = {}
    points, taken = entry_points(group=GROUPS[group]), own_names(PACKAGES[group])
    for point in sorted(points, key=lambda point: (package_of(point), point.name)):
        try:
            if point.name in taken:
                raise ValueError("is left out, because univarfl has one of this name")
            extension = read_entry_point(group, point)
        except ValueError as error:
            logger.warning("package %s: %s %r %s", package_of(point), group, point.name, error)
            continue
        first = found.setdefault(extension.name, extension)
        if first.package != extension.package:
            logger.warning(
                "package %s: %s %r is left out, because package %s has one of this name",
                extension.package, group, point.name, first.package,
            )  # fmt: skip
    return found


def own_names(package: str) -> list[str]:
    """Return the names of a package's own components: its modules except ``base``."""
    return list(component_names(tuple(importlib.import_module(package).__path__)))


@functools.cache
def component_names(path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the components in a package's directories, which are read once."""
    modules = [module.name for module in pkgutil.iter_modules(path) if not module.ispkg]
    return tuple(sorted(name for name in modules if name != "base"))


def read_entry_point(group: str, point: EntryPoint) -> Extension:
    """Return the component that an entry point names; nothing of its package is imported.

    Raises:
        ValueError: it cannot be used; the text says why, to follow its name.
    """
    top, _, last = point.module.partition(".")
    if point.attr or not last or last.rpartition(".")[2] != point.name:
        raise ValueError(f"must name a module PACKAGE.{point.name}, and names {point.value}")
    spec = importlib.util.find_spec(top)
    if spec is None or spec.origin is None or not spec.submodule_search_locations:
        raise ValueError(f"must be in a Python package with an __init__.py, and {top} is none")
    directory = Path(spec.origin).resolve().parent
    extension = Extension(group, point.name, package_of(point), point.module, directory)
    if not extension.settings.is_file():
        raise ValueError(f"has no file {extension.settings}")
    return extension


def package_of(point: EntryPoint) -> str:
    """Return the name of the package that an entry point belongs to, in its normal form."""
    return normal(point.dist.name) if point.dist else ""


def normal(package: str) -> str:
    """Return the normal form of a package's name: ``My_Package`` is ``my-package``."""
    return re.sub(r"[-_.]+", "-", package).lower()


def chosen(group: str, settings: Any) -> Iterator[Extension]:
    """Yield the components of other packages that a group's settings name."""
    name = settings.get("name") if isinstance(settings, dict) else None
    for each in str(name).split(PLUS):
        if found := extensions(group).get(each):
            yield found
    if target := target_of(settings):
        yield target


def target_of(settings: Any) -> Extension | None:
    """Return the code that settings name by ``target``, which is in any package.

    Nothing is imported. The package's name is that under which it is installed, and otherwise that
    of the top-level Python package or module. None if there is no target or no such package.
    """
    name = settings.get("target") if isinstance(settings, dict) else None
    if not isinstance(name, str) or not TARGET.fullmatch(name):
        return None
    module = name.partition(":")[0]
    top = module.partition(".")[0]
    try:
        spec = importlib.util.find_spec(top)
    except ValueError:  # __main__ has none
        return None
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        return None
    origin = Path(spec.origin).resolve()
    package = distributions().get(top, [top])[0]
    place = origin.parent if spec.submodule_search_locations else origin
    return Extension("model", str(settings.get("name")), normal(package), module, place)


distributions = functools.cache(packages_distributions)  # reads a file of each package


@functools.lru_cache(maxsize=8)
def run_by_clients(experiment: str) -> tuple[Extension, ...]:
    """Return the components of other packages that the clients of an experiment run.

    Args:
        experiment: a `task.config.LocalConfig` as JSON.

    Raises:
        ConfigError: it is other text, so nothing can be said about its components.
    """
    try:
        config = json.loads(experiment)
    except (ValueError, RecursionError):  # neither JSON nor of a sane depth
        config = None
    if not isinstance(config, dict):
        raise ConfigError("experiment", experiment[:SHOWN], "must be a JSON object")
    return tuple(each for group in ON_CLIENTS for each in chosen(group, config.get(group)))
