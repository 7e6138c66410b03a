"""The measure of how much code a reader passes."""

from pathlib import Path

import pytest

from tests import reading
from tests.reading import Import, circles, closure, hidden_circles, import_lines, imports_of

MODULES = {
    "app": "from parts import first\nimport os\n\n\ndef run():\n    from parts import late\n",
    "parts": '"""A package."""\n',
    "parts.first": "from typing import TYPE_CHECKING\n\nimport parts.second\n\n"
    "if TYPE_CHECKING:\n    from app import run\n",
    "parts.second": "try:\n    from parts.third import (\n        one,\n        two,\n    )\n"
    "except ImportError:\n    pass\n",
    "parts.third": "def one():\n    from parts.first import run\n",
    "parts.late": "",
}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    found = {}
    for name, text in MODULES.items():
        found[name] = tmp_path / f"{name}.py"
        found[name].write_text(text)
    return found


def test_imports_are_followed_by_their_kind(files: dict[str, Path]) -> None:
    imports = {name: list(imports_of(name, files)) for name in files}
    assert imports["app"] == [
        Import("parts.first", 1, "module"),
        Import("parts.late", 6, "function"),
    ]
    assert imports["parts.first"][1] == Import("app", 6, "type")
    assert closure(imports, ["app"]) == ["app", "parts.first", "parts.second", "parts.third"]
    assert circles(imports) == [["app", "parts.first", "parts.second", "parts.third"]]
    assert [(name, each.module) for name, each in hidden_circles(imports)] == [
        ("parts.third", "parts.first")
    ]
    assert import_lines(files.values()) == (22, 11)


def test_a_run_is_in_the_measure() -> None:
    """The chosen components are found, and no other method."""
    files = reading.product_files()
    imports = {name: list(imports_of(name, files)) for name in files}
    reached = closure(imports, [*reading.STARTS, *reading.chosen_components()])
    assert {"task.methods.fedprox", "task.training.loop", "server_app.rounds.round"} <= set(reached)
    assert "task.methods.moon" not in reached


def test_no_files_import_each_other_in_a_circle() -> None:
    files = reading.product_files()
    imports = {name: list(imports_of(name, files)) for name in files}
    assert circles(imports) == []
    assert list(hidden_circles(imports)) == []
