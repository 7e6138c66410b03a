"""The command as a person meets it: words, exit codes, and no traceback."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pytest

from server_app.config.composition import compose_experiment
from task.errors import ConfigError
from tests.conftest import SMALL, faulty
from tests.server_app.runs.recorded import record
from univarfl.cli.main import main
from univarfl.engines.cluster import Machines, require_allowed_workers
from univarfl.engines.flower import federation_config
from univarfl.flower.run_log import readable


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["univarfl", *words])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@pytest.fixture(autouse=True)
def _runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNIVARFL_RUNS", str(tmp_path / "runs"))


@pytest.mark.usefixtures("curves")
def test_a_run_prints_a_line_per_round_and_its_paths(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(monkeypatch, "train", *SMALL) == 0
    out = capsys.readouterr().out.splitlines()
    (directory,) = (tmp_path / "runs").iterdir()
    rounds = [line for line in out if line.startswith("round ")]
    assert len(rounds) == 2
    for word in ("test 0.", "validation 0.", "ce ", "l_he ", "l_v ", "clients 4/4", " s"):
        assert word in rounds[1]
    assert f"model   {directory / 'model.safetensors'}" in out
    assert (directory / "curves.png").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("train", "method=foo"),
        ("train", "num_clients=1000"),
        ("train", "~alpha"),
        ("train", "hydra.run.dir=/x"),
        ("train", "federation.workers=10000"),
        ("train", "federation.workers=10000", "engine=inprocess"),
        ("train", "output_dir=/proc/runs"),
        ("train", "--unknown"),
        ("trian",),
        ("train", "device=cuda"),
        ("train", "++resume=no-such-run", "--dry-run"),
        ("data", "resume=no-such-run"),
        ("sweep", "--dry-run", "seed=range(0)"),
        ("data", "data=pacs"),
        ("data", "data=folder", "data.root=/no/such"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    words: tuple[str, ...],
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert run(monkeypatch, *words) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len(shown.err.splitlines()) == 1
    assert shown.err.startswith("univarfl: ")
    assert not (tmp_path / "runs").exists()


@pytest.mark.usefixtures("parts")
def test_a_failed_run_is_exit_code_1_and_names_its_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "train", *SMALL, *faulty([0, 1, 2, 3], [1], "raise")) == 1
    shown = capsys.readouterr()
    assert "Traceback" not in shown.out + shown.err
    last = shown.err.splitlines()[-1]
    assert "no clients succeeded" in last
    assert last.endswith("run.log")


def test_help_teaches(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "train", "--help") == 0
    text = capsys.readouterr().out
    for word in ("fedavg | fedbn | feddecorr", "alpha=0.05", "Exit codes", "model.safetensors"):
        assert word in text


def test_a_warning_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "train", *SMALL, "rounds=1", "method.energy_eps=1e-5")
    warned = [line for line in capsys.readouterr().err.splitlines() if "energy_eps" in line]
    assert len(warned) == 1
    assert warned[0].startswith("warning: method.energy_eps=1e-05 is below 1e-4")


@pytest.mark.parametrize(
    ("words", "gpus", "supernodes", "share"),
    [
        ("num_clients=4 rho=0.5 federation.workers=8", 0, 2, "0.0"),  # never more than participants
        ("federation.workers=3", 0, 3, "0.0"),
        ("", 1, 1, "1.0"),  # one worker per GPU unless asked
        ("federation.workers=3", 1, 3, "0.333"),
        ("federation.workers=2", 4, 2, "1.0"),
        ("federation.workers=3", 2, 3, "0.5"),  # Ray cannot spread one worker over two GPUs
    ],
)
def test_univarfl_train_sizes_the_federation_and_shows_it_the_gpus(
    words: str, gpus: int, supernodes: int, share: str
) -> None:
    machines = Machines(cpus=7, gpus=gpus, running=False)
    assert federation_config(compose_experiment(words.split()), machines) == (
        f"num-supernodes={supernodes} init-args-num-cpus={supernodes} client-resources-num-cpus=1 "
        f"client-resources-num-gpus={share}"
    )


def test_of_a_ray_cluster_it_takes_what_there_is() -> None:
    machines = Machines(cpus=3, gpus=0, running=True)
    assert federation_config(compose_experiment([]), machines) == (
        "num-supernodes=3 client-resources-num-cpus=1 client-resources-num-gpus=0.0"
    )


@pytest.mark.parametrize(
    ("workers", "cpus", "allowed"), [(16, 2, True), (17, 2, False), (64, 8, True)]
)
def test_a_machine_takes_eight_workers_for_each_cpu(workers: int, cpus: int, allowed: bool) -> None:
    if allowed:
        require_allowed_workers(workers, cpus)
        return
    with pytest.raises(ConfigError) as caught:
        require_allowed_workers(workers, cpus)
    assert str(caught.value) == (
        "federation.workers=17: must be at most 16, which is 8 for each of 2 CPU cores"
    )


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("2026-01-02 03:04:05,678 INFO univarfl round 1/2", "round 1/2"),
        ("2026-01-02 03:04:05,678 WARNING univarfl client 3: x", "warning: client 3: x"),
        ("2026-01-02 03:04:05,678 ERROR univarfl.client client 3 failed", ""),
        ("Traceback (most recent call last):", ""),
    ],
)
def test_the_console_shows_what_is_meant_for_it(line: str, shown: str) -> None:
    assert readable(line) == shown


@contextmanager
def closed_pipe() -> Iterator[TextIO]:
    """The writing end of a pipe that nobody reads."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as closed:
        yield closed


def test_a_closed_pipe_ends_a_help_text_quietly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with closed_pipe() as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        assert run(monkeypatch, "--help") == 141
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("cache", ["new", "warm"])
def test_a_closed_pipe_ends_the_command_quietly_after_its_files_are_written(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    cache: str,
) -> None:
    """As in ``univarfl data | head -0``; with a new cache, log messages come before the table."""
    if cache == "new":
        monkeypatch.setenv("UNIVARFL_CACHE", str(tmp_path / "cache"))
    with closed_pipe() as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        assert run(monkeypatch, "data", "--to", str(tmp_path / "split")) == 141
    assert capsys.readouterr().err == ""
    written = sorted(path.name for path in (tmp_path / "split").iterdir())
    assert written == ["images.png", "split.csv", "split.png"]


@pytest.mark.parametrize("target", ["0", "-0.5", "1.01", "90", "nan"])
def test_a_target_that_is_no_accuracy_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], target: str
) -> None:
    assert run(monkeypatch, "report", "--target", "0.9", "--target", target) == 2
    assert "must be above 0 and at most 1, such as 0.9" in capsys.readouterr().err


def test_every_accuracy_can_be_a_target(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    record(tmp_path / "runs", "run", [], [0.1, 0.5, 1.0])
    words = ("--target", "1", "--target", "0.5")
    assert run(monkeypatch, "report", str(tmp_path / "runs"), *words) == 0
    page = (tmp_path / "runs" / "report" / "index.html").read_text()
    assert "50 %" in page or "0.5" in page
    assert capsys.readouterr().err == ""
