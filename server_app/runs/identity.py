"""Which runs give equal results: the settings, the code and the data that decide a result.

The code of a run has two parts: the shared path (`SHARED`), which every run uses, and the
components that the run chose (of `PACKAGES`). So a new method, or a change in ``deploy/``, does not
affect runs that do not use it. Files count byte by byte: a changed comment in a deciding file
changes the hash, but the hash does not depend on the Python version, as one of syntax trees would.
"""

import ast
import functools
import hashlib
import importlib.util
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from server_app.config.differences import deciding_groups
from server_app.runs.records.run_record import RunRecord
from task.extensions import PACKAGES, PLUS, extensions, target_of
from task.registry import module_of

# Packages and modules that every run uses and that can change its result.
# A test follows the imports of a run and fails if one is neither here nor declared harmless.
SHARED = (
    "client_app",
    "server_app.aggregation",
    "server_app.nodes",
    "server_app.rounds",
    "server_app.runs.checkpoint",
    "server_app.runs.kept_sums",
    "task.combination",
    "task.config",
    "task.data",
    "task.exact_sum",
    "task.extensions",
    "task.given_weights",
    "task.methods",
    "task.models",
    "task.optim",
    "task.privacy",
    "task.protocol",
    "task.registry",
    "task.secure",
    "task.seeding",
    "task.training",
    "task.tuning",
)
NAMED = re.compile(r"[a-z_]\w*(\.\w+)+:\w+")


class Code(NamedTuple):
    """Hashes of the code that decides a run's result.

    Attributes:
        shared: of the shared path.
        components: of each chosen component and the modules that only components use, by module.
    """

    shared: str
    components: Mapping[str, str]


def code_of(config: Mapping[str, Any]) -> Code:
    """Return the hashes of the code that a run of this configuration uses."""
    components = {name: component_hash(name) for name in chosen_components(config)}
    if target := target_of(config["model"]):
        components[target.module] = target.content()
    return Code(shared_hash(), components)


def recorded_code(record: RunRecord) -> Code:
    """Return the hashes of the code that made a run."""
    return Code(record.code, record.components)


def identity_of(config: Mapping[str, Any], code: Code | None) -> str:
    """Return a hash that is equal for runs of equal settings and code; None leaves the code out.

    Data are compared separately (`ImageVersions`), as a run may be looked for when its images are
    not there.
    """
    text = json.dumps([deciding_groups(config), code], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def chosen_components(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield the modules of a configuration's components."""
    for group in PACKAGES:
        for name in str(config[group]["name"]).split(PLUS):
            yield module_of(group, name)


@functools.cache
def shared_hash() -> str:
    """Return a hash of the shared path, without components."""
    return hash_of_modules(shared_modules())


@functools.cache
def component_hash(module: str) -> str:
    """Return a hash of a component and of all it imports from the packages of components.

    For a component of another package, it is a hash of that package.
    """
    for group in PACKAGES:
        for extension in extensions(group).values():
            if extension.module == module:
                return extension.content()
    return hash_of_modules(component_modules(module))


def component_modules(module: str) -> set[str]:
    """Return a component's module and those it imports that belong to components alone."""
    bases = {f"{package}.base" for package in PACKAGES.values() if module.startswith(f"{package}.")}
    reached: set[str] = set()
    waiting = [module, *bases]  # a base class names options of its components
    while waiting:
        name = waiting.pop()
        if name not in reached and (name in bases or is_component(name)):
            reached.add(name)
            waiting += imported_modules(name)
    return reached - bases


def is_component(module: str) -> bool:
    """Return whether a module belongs to components alone: no package, and not their base."""
    if not any(module.startswith(f"{package}.") for package in PACKAGES.values()):
        return False
    path = source_of(module)
    return path is not None and path.stem not in ("base", "__init__")


def shared_modules() -> set[str]:
    """Return the modules of the shared path."""
    modules = {module for root in SHARED for module in modules_in(root)}
    return {module for module in modules if not is_component(module)}


def modules_in(root: str) -> Iterator[str]:
    """Yield a module or, of a package, all modules in it and below."""
    yield root
    path = source_of(root)
    assert path is not None, root
    if path.name == "__init__.py":
        for each in sorted(path.parent.rglob("*.py")):
            parts = each.relative_to(path.parent).with_suffix("").parts
            if parts[-1] != "__init__" or len(parts) > 1:
                yield ".".join([root, *(part for part in parts if part != "__init__")])


def imported_modules(module: str) -> list[str]:
    """Return the names that a module imports, wherever in its file: modules, and names in them.

    A text ``module:NAME`` counts as an import (`task.registry.named`).
    """
    path = source_of(module)
    assert path is not None, module
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Constant) and NAMED.fullmatch(str(node.value)):
            names.append(str(node.value).partition(":")[0])
    return names


@functools.cache
def source_of(module: str) -> Path | None:
    """Return a module's file; None if there is no such module. No package is imported for it."""
    top, *below = module.split(".")
    spec = importlib.util.find_spec(top)
    if not below or spec is None:
        return Path(spec.origin) if spec and spec.origin else None
    for folder in spec.submodule_search_locations or ():
        path = Path(folder, *below)
        for file in (path / "__init__.py", path.with_suffix(".py")):
            if file.is_file():
                return file
    return None


def hash_of_modules(modules: Iterable[str]) -> str:
    """Return the SHA-256 of modules' names and files."""
    digest = hashlib.sha256()
    for module in sorted(modules):
        path = source_of(module)
        assert path is not None, module
        digest.update(f"{module}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
