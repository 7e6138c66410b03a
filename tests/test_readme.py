"""The README's promises about adding a method, kept in a copy of the project."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parent.parent
PACKAGES = ("client_app", "conf", "server_app", "task", "tests")
PARTS = (
    "task/methods/logit_decay.py",
    "conf/method/logit_decay.yaml",
    "server_app/strategies/half_step.py",
    "conf/strategy/half_step.yaml",
)


def block(about: str) -> str:
    """The README's code or settings whose first line is a comment that names this."""
    found = re.findall(r"```\w+\n(# .*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (text,) = [each for each in found if each.startswith(f"# {about}\n")]
    return str(text)


def run(project: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=project, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_part_is_one_file_and_one_yaml(tmp_path: Path) -> None:
    """A method's two files and a strategy's, in a copy of the project, which tests them."""
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for place in PARTS:
        (tmp_path / place).write_text(block(place))
    chosen = ["-m", "not slow", "-k", "house or logit_decay or half_step"]
    said = run(tmp_path, "pytest", "-q", "-rp", "--numprocesses=0", *chosen, "tests")
    passed = re.findall(r"^PASSED (.*)", said, re.M)
    assert len(passed) > 20
    for part in ("logit_decay", "half_step"):
        assert sum("test_house" in name or part in name for name in passed) > 15
    assert "failed" not in said


def test_the_terms_in_a_loop_of_ones_own() -> None:
    logits, features = torch.randn(8, 5, requires_grad=True), torch.randn(8, 16, requires_grad=True)
    known = {"logits": logits, "features": features, "labels": torch.arange(8) % 5}
    exec(block("in your loop"), known)
    known["loss"].backward()
    assert logits.grad is not None
    assert features.grad is not None


def test_the_overrides_it_shows_are_allowed() -> None:
    from server_app.composition import compose_experiment

    shown = re.findall(r"^uv run univarfl train ([^#\n]*)", (ROOT / "README.md").read_text(), re.M)
    assert len(shown) >= 5
    for words in shown:
        if "logit_decay" not in words and "$" not in words:
            compose_experiment(words.split())
