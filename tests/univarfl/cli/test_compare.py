"""Two runs side by side, and the state of the machine."""

import re
import shutil
from pathlib import Path

import pytest
from scipy import stats

from task.errors import ConfigError
from tests.server_app.runs.recorded import change, record
from tests.univarfl.cli.test_cli import run
from univarfl.engines import doctor
from univarfl.report.comparison import compare

ACCURACIES = {"fedavg": (0.50, 0.52, 0.54), "moon": (0.55, 0.58, 0.58)}


@pytest.fixture(scope="module")
def recorded_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of two methods, three seeds each, and one of another alpha."""
    place = tmp_path_factory.mktemp("recorded_runs")
    for method, accuracies in ACCURACIES.items():
        for seed, accuracy in enumerate(accuracies):
            words = [f"method={method}", f"seed={seed}"]
            record(place, f"{method}{seed}", words, [0.1, 0.3, accuracy])
    record(place, "other", ["method=moon", "alpha=0.9"], [0.1, 0.3, 0.4])
    return place


@pytest.fixture
def runs(recorded_runs: Path, tmp_path: Path) -> Path:
    """Return a copy of `recorded_runs` that a test may change."""
    return shutil.copytree(recorded_runs, tmp_path, dirs_exist_ok=True)


def test_settings_accuracy_curves_and_a_paired_test_are_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], runs: Path
) -> None:
    monkeypatch.setenv("UNIVARFL_RUNS", str(runs))
    picture = runs / "picture.png"
    assert run(monkeypatch, "compare", "fedavg1", str(runs / "moon0"), "--to", str(picture)) == 0
    shown = capsys.readouterr().out
    assert re.search(r"method.name +fedavg +moon", shown)
    assert re.search(r"last round +52.0 ± 2.0 +57.0 ± 1.7", shown)
    assert re.search(r"seeds +1, 0, 2 +0, 1, 2", shown)
    p = stats.ttest_rel(ACCURACIES["moon"], ACCURACIES["fedavg"]).pvalue
    assert "last round: +5.0 points over 3 seeds, 95% +2.5 to +7.5" in shown
    assert f"paired t-test p = {p:.3f}, significant" in shown
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_without_several_common_seeds_it_says_so(runs: Path) -> None:
    assert "needs runs of two seeds" in compare(runs / "fedavg0", runs / "other").paired_test()
    words = ["method=fedprox", "seed=7"]
    alone = compare(runs / "fedavg0", record(runs, "seven", words, [0.1, 0.3, 0.4]))
    assert "no seed in common" in alone.paired_test()
    seeds = compare(runs / "moon0", runs / "moon1")
    assert next(iter(seeds.accuracies())) == ("last round", "55.0", "58.0")
    assert "no seed in common" in seeds.paired_test()


def test_other_code_is_named_and_other_images_are_not_compared(runs: Path) -> None:
    assert compare(runs / "fedavg0", runs / "moon0").warnings() == []
    change(runs / "moon1", code="other")
    found = compare(runs / "fedavg0", runs / "moon0")
    assert found.warnings() == [
        "The runs were made by different code: the shared code (2 versions)."
    ]
    change(runs / "moon2", data_version="other")
    pooled = compare(runs / "fedavg0", runs / "moon0").second
    assert {run.config["seed"] for run in pooled} == {0, 1}
    for seed in range(3):
        change(runs / f"moon{seed}", data_version="other")
    text = compare(runs / "fedavg0", runs / "moon0").paired_test()
    assert text == "the two were trained on different images, so no paired difference is computed"


def test_a_run_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch, runs: Path) -> None:
    assert run(monkeypatch, "compare", str(runs / "none"), str(runs / "moon0")) == 2
    with pytest.raises(ConfigError, match="is not a run"):
        compare(runs / "none", runs / "moon0")


def test_the_doctor_finds_nothing_that_fails_here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "doctor") == 0
    shown = capsys.readouterr().out
    for word in ("flwr 1.42", "torch", "ray", "port 8000", "memory", "GB are free in"):
        assert word in shown


def test_the_doctor_exits_with_1_if_something_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "doctor", str(tmp_path)) == 1  # a directory without a site.toml
    assert "FAIL  settings" in capsys.readouterr().out


def test_the_doctor_names_what_is_wrong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0.1")
    monkeypatch.setattr(doctor, "PROGRAMS", ("no-such-program",))
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    failed = [text for state, text in doctor.findings() if state == doctor.FAIL]
    assert any(text.startswith("flwr 0.1 is not <1.43,>=1.42.0") for text in failed)
    assert any("no-such-program not found" in text for text in failed)
    assert any("127.0.0.1:1" in text for text in failed)
