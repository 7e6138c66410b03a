"""The README's promises about adding a method, kept in a copy of the project."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("client_app", "conf", "server_app", "task", "tests")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def run(project: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=project, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_method_is_one_file_and_one_yaml(tmp_path: Path) -> None:
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (code,) = blocks("python")
    (settings,) = blocks("yaml")
    place = re.match(r"# (task/methods/\w+\.py)", code)
    assert place is not None
    name = Path(place[1]).stem
    (tmp_path / place[1]).write_text(code)
    (tmp_path / "conf" / "method" / f"{name}.yaml").write_text(settings)
    said = run(tmp_path, "pytest", "-q", "-m", "not slow", "-k", f"house or {name}", "tests")
    passed = re.search(r"(\d+) passed", said)
    assert passed is not None
    assert int(passed[1]) > 15
    assert "failed" not in said


def test_the_overrides_it_shows_are_allowed() -> None:
    from server_app.composition import compose_experiment

    shown = re.findall(r"^uv run univarfl train ([^#\n]*)", (ROOT / "README.md").read_text(), re.M)
    assert len(shown) >= 5
    for words in shown:
        if "logit_decay" not in words and "$" not in words:
            compose_experiment(words.split())
