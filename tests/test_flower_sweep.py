"""A sweep whose runs use one SuperLink and one Ray, one after another."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from server_app.runs.records.record import read_record
from server_app.runs.records.tables import count_rounds
from tests.conftest import SMALL, Train, sha256
from tests.machines import until
from tests.processes import UNIVARFL, alive, names

SUPERLINK, RAY = "flower-superlink", "gcs_server"


@contextmanager
def sweep(*words: str) -> Iterator["subprocess.Popen[str]"]:
    """Start ``univarfl sweep`` with Flower; kill it at the end if it still runs."""
    command = [UNIVARFL, "sweep", *SMALL[1:], "engine=flower", *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def programs(process: "subprocess.Popen[str]") -> set[tuple[str, int]]:
    """Return the SuperLinks and Rays that run now, by program and process id.

    A process that a SuperLink starts has the SuperLink's command line until it loads its own
    program. It is no second SuperLink, so it is left out.
    """
    found = set()
    for child in psutil.Process(process.pid).children(recursive=True):
        try:
            words = child.cmdline()
            parent = child.parent()
            if parent is None or parent.cmdline() == words:
                continue
        except psutil.Error:
            continue
        for name in (SUPERLINK, RAY):
            if any(word.endswith(name) for word in words) and "supervisor.py" not in str(words):
                found.add((name, child.pid))
    return found


def runs_in(place: Path) -> list[Path]:
    """Return the run directories in a directory."""
    return sorted(record.parent for record in place.glob("*/run.json"))


@pytest.mark.slow
def test_runs_share_superlink_and_ray_and_leave_nothing_to_each_other(
    train: Train, tmp_path: Path
) -> None:
    """MOON's clients keep state, which must not reach the next run."""
    seen: set[tuple[str, int]] = set()
    with sweep("method=moon", "seed=0,1", f"output_dir={tmp_path}") as process:
        while process.poll() is None:
            seen |= programs(process)
            try:
                process.wait(0.3)
            except subprocess.TimeoutExpired:
                continue
        assert process.stdout is not None
        said = process.stdout.read()
    assert process.returncode == 0, said
    assert sorted(name for name, _ in seen) == [SUPERLINK, RAY], seen
    directories = runs_in(tmp_path)
    assert len(directories) == 2
    assert list((tmp_path / "memory").iterdir()) == []
    for directory in directories:
        seed = read_record(directory)["config"]["seed"]
        assert sha256(directory) == sha256(train("method=moon", f"seed={seed}"))


@pytest.mark.slow
def test_an_interrupted_sweep_closes_its_run_and_is_continued(train: Train, tmp_path: Path) -> None:
    words = ["rounds=12", "method=moon", f"output_dir={tmp_path}"]

    with sweep(*words) as process:
        until(lambda: any(map(count_rounds, runs_in(tmp_path))), "the first round", 120)
        family = psutil.Process(process.pid).children(recursive=True)
        assert {name for name, _ in programs(process)} == {SUPERLINK, RAY}
        process.send_signal(signal.SIGINT)
        process.wait(120)
    assert process.returncode == 130
    until(lambda: alive(family) == [], f"the end of {names(family)}", 20)
    (directory,) = runs_in(tmp_path)
    record = read_record(directory)
    assert (record["status"], record["reason"]) == ("failed", "interrupted")
    with sweep(*words) as process:
        process.wait(240)
    assert process.returncode == 0
    assert read_record(directory)["resumed_from"] >= 1
    assert sha256(directory) == sha256(train("rounds=12", "method=moon"))
