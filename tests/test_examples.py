"""The examples of code in the documentation, and its table of packages."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import task.data.sources
import task.methods
import task.models
from server_app.aggregation import strategies
from server_app.config import choices, chosen_files
from server_app.runs.records.run_record import read_entries
from tests.conftest import Train
from tests.documents import ROOT, example, written

PACKAGES = ("client_app", "conf", "docs", "server_app", "task", "tests", "univarfl")
COMPONENTS = (
    "task/methods/logit_decay.py",
    "conf/method/logit_decay.yaml",
    "server_app/aggregation/strategies/half_step.py",
    "conf/strategy/half_step.yaml",
)
SOURCE = ("task/data/sources/arrays.py", "conf/data/arrays.yaml")
MODEL = ("task/models/two_layers.py", "conf/model/two_layers.yaml")


def run(project: Path, *words: str) -> str:
    """Run a Python module in a project; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=project, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_documented_method_strategy_data_source_and_model_train(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, train: Train
) -> None:
    shutil.copytree(ROOT / "conf", tmp_path / "conf")
    for place in (*COMPONENTS, *SOURCE, *MODEL):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(example(place))
    for module in (choices, chosen_files):
        monkeypatch.setattr(module, "CONF", tmp_path / "conf")
    for package in (task.methods, task.data.sources, task.models, strategies):
        folder = tmp_path / package.__name__.replace(".", "/")
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
    images = np.random.default_rng(0).integers(0, 255, (150, 8, 8, 3), dtype=np.uint8)
    np.savez(tmp_path / "scans.npz", images=images, labels=np.arange(150) % 3)
    words = [f"data.root={tmp_path / 'scans.npz'}", "num_clients=2", "rounds=1"]
    parts = ["data=arrays", "model=two_layers", "method=logit_decay", "strategy=half_step"]
    record = read_entries(train(*parts, *words))
    assert record["status"] == "completed"
    names = [record["config"][part.partition("=")[0]]["name"] for part in parts]
    assert names == ["arrays", "two_layers", "logit_decay", "half_step"]
    assert record["data"]["test"] == 30


@pytest.mark.slow
def test_the_projects_own_tests_accept_the_documented_method_and_strategy(tmp_path: Path) -> None:
    """Run the tests of methods, strategies and structure in a copy with the four new files."""
    for package in (*PACKAGES, "benchmarks"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for place in COMPONENTS:
        _, _, content = example(place).partition("\n")  # without the comment that names the file
        (tmp_path / place).write_text(content)
    chosen = ["-k", "house or logit_decay or half_step"]
    said = run(tmp_path, "pytest", "-q", "-rp", "--numprocesses=0", *chosen, "tests")
    passed = re.findall(r"^PASSED (.*)", said, re.M)
    assert len(passed) > 20
    for part in ("logit_decay", "half_step"):
        assert any(part in name for name in passed)
    assert "failed" not in said


def test_the_documented_own_training_loop_runs() -> None:
    logits, features = torch.randn(8, 5, requires_grad=True), torch.randn(8, 16, requires_grad=True)
    known = {"logits": logits, "features": features, "labels": torch.arange(8) % 5}
    exec(example("in your loop"), known)
    known["loss"].backward()
    assert logits.grad is not None
    assert features.grad is not None


def test_the_table_of_packages_is_complete() -> None:
    named = re.findall(r"`([a-z_]+(?:/[a-z_]+)?)/`", written()["docs/explanation/architecture.md"])
    packages = {path.parent for path in ROOT.glob("server_app/*/__init__.py")}
    packages |= {ROOT / name for name in (*PACKAGES, "benchmarks")}
    assert {ROOT / name for name in named} >= packages
    assert all((ROOT / name).is_dir() for name in named)
