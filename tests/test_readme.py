"""The README's examples, its links and its table of packages."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import task.methods
from server_app.aggregation import strategies
from server_app.config import choices, composition
from server_app.runs.records.record import read_record
from tests.conftest import Train

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "RESULTS.md")
PACKAGES = ("client_app", "conf", "server_app", "task", "tests")
COMPONENTS = (
    "task/methods/logit_decay.py",
    "conf/method/logit_decay.yaml",
    "server_app/aggregation/strategies/half_step.py",
    "conf/strategy/half_step.yaml",
)


def block(about: str) -> str:
    """Return the README's code block whose first line is the comment ``# about``."""
    found = re.findall(r"```\w+\n(# .*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (text,) = [each for each in found if each.startswith(f"# {about}\n")]
    return str(text)


def section(heading: str) -> str:
    """Return the README's section under a heading of the second level."""
    (text,) = re.findall(
        rf"^## {heading}\n(.*?)^## ", (ROOT / "README.md").read_text(), re.M | re.S
    )
    return str(text)


def run(project: Path, *words: str) -> str:
    """Run a Python module in a project; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=project, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_readmes_method_and_strategy_train(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, train: Train
) -> None:
    shutil.copytree(ROOT / "conf", tmp_path / "conf")
    for place in COMPONENTS:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(block(place))
    for module in (choices, composition):
        monkeypatch.setattr(module, "CONF", tmp_path / "conf")
    for package in (task.methods, strategies):
        folder = tmp_path / package.__name__.replace(".", "/")
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
    record = read_record(train("method=logit_decay", "strategy=half_step", "rounds=1"))
    assert record["status"] == "completed"
    names = [record["config"][group]["name"] for group in ("method", "strategy")]
    assert names == ["logit_decay", "half_step"]


@pytest.mark.slow
def test_the_projects_own_tests_accept_the_readmes_method_and_strategy(tmp_path: Path) -> None:
    """Run the tests of methods, strategies and structure in a copy with the four new files."""
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for place in COMPONENTS:
        (tmp_path / place).write_text(block(place))
    chosen = ["-k", "house or logit_decay or half_step"]
    said = run(tmp_path, "pytest", "-q", "-rp", "--numprocesses=0", *chosen, "tests")
    passed = re.findall(r"^PASSED (.*)", said, re.M)
    assert len(passed) > 20
    for part in ("logit_decay", "half_step"):
        assert sum("test_house" in name or part in name for name in passed) > 15
    assert "failed" not in said


def test_the_readmes_own_training_loop_runs() -> None:
    logits, features = torch.randn(8, 5, requires_grad=True), torch.randn(8, 16, requires_grad=True)
    known = {"logits": logits, "features": features, "labels": torch.arange(8) % 5}
    exec(block("in your loop"), known)
    known["loss"].backward()
    assert logits.grad is not None
    assert features.grad is not None


def test_the_overrides_in_the_readme_are_allowed() -> None:
    shown = re.findall(r"^uv run univarfl train ([^#\n]*)", (ROOT / "README.md").read_text(), re.M)
    assert len(shown) >= 5
    for words in shown:
        if "logit_decay" not in words and "$" not in words:
            composition.compose_experiment(words.split())


def anchors(page: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_a_file_or_a_heading(page: str) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)\s]*)\)", (ROOT / page).read_text())
    assert targets
    for target in targets:
        file, _, anchor = target.partition("#")
        assert (ROOT / file).exists(), target
        assert not anchor or anchor in anchors(file or page), target


@pytest.mark.parametrize("page", PAGES)
def test_the_benchmarks_that_a_page_names_exist(page: str) -> None:
    named = set(re.findall(r"-m benchmarks\.([a-z_]+)", (ROOT / page).read_text()))
    assert named
    for name in named:
        place = ROOT / "benchmarks" / name
        assert place.with_suffix(".py").exists() or (place / "__main__.py").exists(), name


def test_the_table_of_packages_is_complete() -> None:
    named = re.findall(r"`([a-z_]+(?:/[a-z_]+)?)/`", section("Where things live"))
    packages = {path.parent for path in ROOT.glob("server_app/*/__init__.py")}
    packages |= {ROOT / name for name in (*PACKAGES, "benchmarks")}
    assert {ROOT / name for name in named} >= packages
    assert all((ROOT / name).is_dir() for name in named)
