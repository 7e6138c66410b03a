"""Rules about the structure of the code that no linter checks."""

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from task.extensions import PACKAGES

ROOT = Path(__file__).parent.parent
PRODUCT = tuple(
    folder
    for folder in ("client_app", "server_app", "task", "univarfl")
    if (ROOT / folder).is_dir()
)
FLOWER = {"flwr", "ray", "hydra", "omegaconf"}
FORBIDDEN = {
    "task": FLOWER | {"client_app", "server_app", "univarfl"},
    "client_app": {"hydra", "omegaconf", "server_app", "univarfl"},
    "server_app": {"client_app", "univarfl"},
}
NOT_IN_PRODUCT = {"benchmarks", "tests"}
COMPONENTS = {group: package.replace(".", "/") for group, package in PACKAGES.items()}
MOST_ENTRIES_IN_SERVER_APP = 9
DOCUMENTED = (  # the packages that Flower documents; what each exports is public
    "flwr.app", "flwr.clientapp", "flwr.clientapp.mod", "flwr.serverapp", "flwr.serverapp.strategy",
)  # fmt: skip
FLOWERS_MODULE = re.compile(r"flwr(\.[a-z_]\w*)+")  # also as a text, which may be imported


def imported(path: Path) -> Iterator[str]:
    """Yield each module that a file imports, and each name that it imports from one."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def top_level(module: str) -> str:
    """Return the first part of a dotted name."""
    return module.split(".", maxsplit=1)[0]


def product_files() -> list[Path]:
    """Return every Python file of the product."""
    return [path for folder in PRODUCT for path in sorted((ROOT / folder).rglob("*.py"))]


def product_packages() -> list[Path]:
    """Return every folder of the product that holds Python files."""
    return sorted({path.parent for path in product_files()})


@pytest.mark.parametrize("package", FORBIDDEN)
def test_imports_go_one_way(package: str) -> None:
    found = {
        (path, module)
        for path in (ROOT / package).rglob("*.py")
        for module in imported(path)
        if top_level(module) in FORBIDDEN[package]
    }
    assert found == set()


def test_a_method_imports_torch_alone() -> None:
    allowed = {"torch", "task", *sys.stdlib_module_names}
    for path in (ROOT / "task" / "methods").glob("*.py"):
        assert {top_level(module) for module in imported(path)} <= allowed, path


def test_the_product_imports_neither_tests_nor_benchmarks() -> None:
    found = {
        (path, module)
        for path in product_files()
        for module in imported(path)
        if top_level(module) in NOT_IN_PRODUCT
    }
    assert found == set()


def components_named_in(group: str) -> set[str]:
    """Return the components that the YAML files of one folder of ``conf/`` name."""
    files = [OmegaConf.load(path) for path in (ROOT / "conf" / group).glob("*.yaml")]
    names = [OmegaConf.select(file, f"{group}.name") or OmegaConf.select(file, "name")
             for file in files if OmegaConf.is_dict(file)]  # fmt: skip
    return {name for name in names if name}


def test_every_group_that_names_components_is_listed_here() -> None:
    groups = {path.name for path in (ROOT / "conf").iterdir() if path.is_dir()}
    named = {group for group in groups if components_named_in(group)}
    assert named == {*COMPONENTS, "optim", "task"}, "the settings of these are in task.config"


@pytest.mark.parametrize("group", COMPONENTS)
def test_every_component_has_its_yaml_and_every_yaml_its_component(group: str) -> None:
    files = (ROOT / COMPONENTS[group]).glob("*.py")
    assert components_named_in(group) == {path.stem for path in files} - {"__init__", "base"}


def test_the_root_of_server_app_holds_packages() -> None:
    entries = [path for path in (ROOT / "server_app").iterdir() if path.name != "__pycache__"]
    assert {path.name for path in entries if path.is_file()} == {"__init__.py", "app.py"}
    assert len(entries) <= MOST_ENTRIES_IN_SERVER_APP


@pytest.mark.parametrize(
    "package", product_packages(), ids=lambda path: str(path.relative_to(ROOT))
)
def test_a_package_says_in_one_sentence_what_it_is_for(package: Path) -> None:
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text()))
    assert text is not None
    assert re.fullmatch(r"(?:[^.?!]|[.?!](?!\s|$))+[.?]", text), text


def test_settings_are_not_read_without_their_rules() -> None:
    """The types check values; what fits together is checked by those who read text or files."""
    read = re.compile(r"\b(?:Experiment|LocalConfig)\.(?:model_(?:validate|construct)|parse_)\w*")
    found = {
        str(path.relative_to(ROOT)) for path in product_files() if read.search(path.read_text())
    }
    assert found == {
        "task/rules.py",
        "server_app/config/rules.py",
        "server_app/config/composition.py",
        "server_app/config/experiment.py",
    }


def test_hydras_private_modules_are_not_imported() -> None:
    found = {
        (path, module)
        for path in product_files()
        for module in imported(path)
        if module.startswith("hydra._internal")
    }
    assert found == set()


def private_in_flower(path: Path) -> set[str]:
    """Return what a file uses of Flower beyond the documented packages, wherever in the file."""
    public = {"flwr", *DOCUMENTED}
    for package in DOCUMENTED:
        public |= {f"{package}.{name}" for name in importlib.import_module(package).__all__}
    text = path.read_text()
    used = {module for module in imported(path) if top_level(module) == "flwr"}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and FLOWERS_MODULE.fullmatch(str(node.value)):
            used.add(str(node.value))
    return used - public | set(re.findall(r'__dict__\["_\w+"\]', text))


def test_where_flowers_private_interfaces_are_used() -> None:
    """One file of the ServerApp, one of the engines, and those of a deployment."""
    found = {
        path.relative_to(ROOT).as_posix(): used
        for path in product_files()
        if (used := private_in_flower(path))
    }
    print(f"{len(found)} files use private interfaces of Flower:")
    for name, used in found.items():
        print(f"  {name}: {len(used)} of them")
    elsewhere = {name for name in found if not name.startswith("univarfl/deploy/")}
    assert elsewhere == {
        "server_app/flower/internals.py",
        "univarfl/engines/local/internals.py",
    }


def test_no_file_is_longer_than_400_lines() -> None:
    """A file ends where its question is answered. `tests.reading` measures what a run passes."""
    files = product_files()
    assert len(files) > 150
    assert [path for path in files if len(path.read_text().splitlines()) > 400] == []


def test_flower_packs_every_file() -> None:
    """It leaves files with the names of tests out of the bundle of a run."""
    files = [path for package in PRODUCT for path in (ROOT / package).rglob("*.py")]
    assert [path for path in files if path.match("test_*.py") or path.match("*_test.py")] == []
