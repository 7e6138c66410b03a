"""`univarfl.train` and `univarfl.Run`: records, models and what they raise."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image
from sklearn.datasets import load_digits

import univarfl
from tests.server_app.runs.recorded import change, record, write_entries

TINY: dict[str, Any] = {"rounds": 2, "num_clients": 2, "local_epochs": 1, "partition": "iid"}


@pytest.fixture(scope="module", autouse=True)
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    runs = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNIVARFL_RUNS", str(runs))
        patch.setenv("UNIVARFL_MEMORY", str(runs / "memory"))
        yield runs


@pytest.fixture(scope="module")
def run(place: Path) -> univarfl.Run:
    torch.set_num_threads(2)
    mode = torch.get_deterministic_debug_mode()
    workspace = os.environ.pop("CUBLAS_WORKSPACE_CONFIG", None)
    run = univarfl.train(method="fedavg", progress=False, **TINY)
    assert torch.get_num_threads() == 2
    assert torch.get_deterministic_debug_mode() == mode
    assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ
    if workspace is not None:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = workspace
    torch.set_num_threads(1)
    return run


def test_a_run_has_its_record_as_tables(run: univarfl.Run, place: Path) -> None:
    assert (run.status, run.directory.parent) == ("completed", place)
    assert run.settings["method"] == {"name": "fedavg"}
    assert list(run.rounds["round"]) == [0, 1, 2]
    assert run.rounds["test_accuracy"].iloc[-1] == run.accuracy
    assert np.isnan(run.rounds["train_ce"].iloc[0])
    assert list(run.clients["client"]) == [0, 1, 0, 1]
    assert list(run.events.columns) == ["time", "round", "site", "event"]
    assert isinstance(run.plot(), Figure)
    assert "completed, accuracy" in repr(run)


def test_an_unknown_device_is_refused_by_its_name(run: univarfl.Run) -> None:
    with pytest.raises(univarfl.ConfigError, match=r"^device=gpu: write device=cuda$"):
        run.model(device="gpu")  # type: ignore[arg-type]
    with pytest.raises(univarfl.ConfigError, match="must be 'auto', 'cpu' or 'cuda'"):
        run.model(device="tpu-pod")  # type: ignore[arg-type]


def test_its_model_classifies_arrays_and_files_alike(run: univarfl.Run, tmp_path: Path) -> None:
    images = (load_digits().images[:3] * (255 / 16)).astype(np.uint8)
    frame = run.predict(images)
    assert list(frame["image"]) == [0, 1, 2]
    with torch.no_grad():
        expected = run.model()(torch.from_numpy(images)[..., None])
    columns = [f"p_{digit}" for digit in range(10)]
    np.testing.assert_allclose(frame[columns], expected, atol=0.02)  # resized without rounding
    paths = [tmp_path / f"{index}.png" for index in range(3)]
    for path, image in zip(paths, images, strict=True):
        Image.fromarray(image).save(path)
    (tmp_path / "3.png").write_bytes(b"no image")
    with pytest.warns(UserWarning, match=r"left out: .*3\.png") as warned:
        from_files = run.predict(tmp_path)
    assert {warning.filename for warning in warned} == {__file__}
    assert list(from_files["image"]) == [str(path) for path in paths]
    np.testing.assert_array_equal(from_files[columns], frame[columns])


@pytest.mark.parametrize(
    "images",
    [
        [],
        "nowhere",
        np.zeros((1, 8, 8)),
        np.zeros((8, 8), np.uint8),
        np.zeros((20, 8, 3), np.uint8),
        [np.zeros((8, 8), np.uint8), np.zeros((9, 9), np.uint8)],
        None,
    ],
)
def test_other_things_than_images_are_refused(run: univarfl.Run, images: object) -> None:
    with pytest.raises(univarfl.ConfigError, match="images="):
        run.predict(images)


def test_a_run_is_found_by_path_id_and_latest(run: univarfl.Run, place: Path) -> None:
    for name in (run.directory, str(run.directory), run.id, "latest"):
        assert univarfl.load_run(name).directory == run.directory
    for name in ("nothing", place):
        with pytest.raises(univarfl.ConfigError, match="run="):
            univarfl.load_run(name)


def test_all_runs_of_a_directory_are_loaded_in_the_order_of_their_start(tmp_path: Path) -> None:
    for name, started, status in (("b", "2026-01-01", "completed"), ("a", "2026-01-02", "failed")):
        change(record(tmp_path, name, [], [0.1, 0.5]), started=started, status=status)
    found = univarfl.load_runs(tmp_path)
    assert [(run.id, run.status) for run in found] == [("b", "completed"), ("a", "failed")]
    assert list(found.table["run"]) == ["b", "a"]
    with pytest.raises(univarfl.ConfigError, match="holds no runs"):
        univarfl.load_runs(tmp_path / "a")


@pytest.mark.slow
def test_a_report_is_one_page(
    run: univarfl.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.report(tmp_path / "report").read_text().startswith("<!doctype html>")
    assert capsys.readouterr().out == ""


def test_a_report_of_runs_in_two_directories_is_refused(run: univarfl.Run, tmp_path: Path) -> None:
    copy = univarfl.load_run(shutil.copytree(run.directory, tmp_path / "elsewhere" / run.id))
    with pytest.raises(univarfl.ConfigError, match="must be runs of one directory"):
        univarfl.Runs([run, copy]).report()
    assert not list(tmp_path.rglob("index.html"))


def test_runs_show_what_differs(run: univarfl.Run) -> None:
    other = univarfl.train(method="univarfl", seed=1, progress=False, **TINY)
    runs = univarfl.Runs([run, other])
    assert list(runs.table.columns) == ["seed", "method", "status", "accuracy", "run"]
    assert runs.differences() == [
        {"seed": 0, "method": "fedavg"}, {"seed": 1, "method": "univarfl"},
    ]  # fmt: skip
    (axes,) = runs.plot().axes
    assert [line.get_label() for line in axes.lines] == [
        "seed=0, method=fedavg", "seed=1, method=univarfl",
    ]  # fmt: skip
    assert isinstance(runs[:1], univarfl.Runs)
    with pytest.raises(univarfl.ConfigError, match="choose one of test_accuracy"):
        runs.plot("nothing")


@pytest.mark.usefixtures("parts")
def test_a_failed_run_is_an_error_and_keeps_its_record(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fault = {"+method.clients": [0, 1], "+method.rounds": [1, 2], "+method.fault": "raise"}
    settings: dict[str, Any] = {"method": "fedavg", "method.name": "faulty", **fault, **TINY}
    with pytest.raises(univarfl.RunError, match="the run failed: "):
        univarfl.train(**settings)
    shown = capsys.readouterr().out
    assert "warning: round 1, client 0" in shown
    failed = univarfl.load_run("latest")
    assert (failed.status, failed.accuracy) == ("failed", None)
    with pytest.raises(univarfl.ConfigError, match="has no final model"):
        failed.model()


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    write_entries(tmp_path, {"format": 2})
    with pytest.raises(univarfl.ConfigError, match="status: it is missing"):
        univarfl.load_run(tmp_path)


def test_importing_univarfl_imports_nothing_slow() -> None:
    code = (
        "import sys, univarfl; univarfl.__version__; "
        "print(sorted({'torch', 'pandas', 'flwr', 'hydra', 'numpy', 'task'} & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"
    assert set(univarfl.__all__) <= set(dir(univarfl))
    for name in univarfl.__all__:
        assert getattr(univarfl, name).__doc__
    assert univarfl.methods() == sorted(univarfl.methods())
    with pytest.raises(AttributeError):
        univarfl.nothing  # noqa: B018


def test_another_package_of_the_same_name_is_named(tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text("")
    code = "import task, univarfl; univarfl.train"
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "ImportError: univarfl has a package 'task', and " in ended.stderr


SCRIPT = """\
import univarfl
runs = univarfl.sweep(method=["fedavg", "univarfl"], jobs=2, rounds=1, num_clients=2,
                      local_epochs=1, partition="iid")
print(list(runs.table["method"]), [run.status for run in runs])
"""


@pytest.mark.slow
def test_a_script_without_a_main_guard_can_sweep(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    ended = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1] == "['fedavg', 'univarfl'] ['completed', 'completed']"
