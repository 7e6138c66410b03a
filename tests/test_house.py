"""The rules of the house that no linter knows."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from omegaconf import OmegaConf

ROOT = Path(__file__).parent.parent
FLOWER = {"flwr", "ray", "hydra", "omegaconf"}
FORBIDDEN = {
    "task": FLOWER | {"client_app", "server_app"},
    "client_app": {"hydra", "omegaconf", "server_app"},
    "server_app": {"client_app"},
}
RUNS_BOTH_APPS = ROOT / "server_app" / "engines" / "inprocess.py"


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


@pytest.mark.parametrize("package", FORBIDDEN)
def test_imports_go_one_way(package: str) -> None:
    found = {
        (path, module)
        for path in (ROOT / package).rglob("*.py")
        for module in imported(path)
        if module.split(".")[0] in FORBIDDEN[package]
    }
    assert {path for path, _ in found} <= {RUNS_BOTH_APPS}, found


def test_a_method_needs_torch_alone() -> None:
    allowed = {"torch", "task", *sys.stdlib_module_names}
    for path in (ROOT / "task" / "methods").glob("*.py"):
        assert {module.split(".")[0] for module in imported(path)} <= allowed, path


@pytest.mark.parametrize(
    ("group", "package"),
    [
        ("method", "task/methods"),
        ("model", "task/models"),
        ("data", "task/data/sources"),
        ("partition", "task/data/partitions"),
        ("augmentation", "task/data/augmentations"),
        ("strategy", "server_app/strategies"),
    ],
)
def test_every_component_has_its_yaml_and_every_yaml_its_component(
    group: str, package: str
) -> None:
    modules = {path.stem for path in (ROOT / package).glob("*.py")} - {"__init__", "base"}
    files = [OmegaConf.load(path) for path in (ROOT / "conf" / group).glob("*.yaml")]
    named = {
        OmegaConf.select(file, f"{group}.name") or OmegaConf.select(file, "name") for file in files
    }
    assert named == modules
