"""Sweeps that are run, interrupted, killed, and run again, with real processes."""

import csv
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from server_app.runs.records.run_record import read_entries
from task.errors import RunError
from tests.conftest import SMALL, Train
from tests.task.data import making
from univarfl.engines.local.processes import CONTEXT
from univarfl.sweeps.cells import cells_of
from univarfl.sweeps.job import Job
from univarfl.sweeps.ledger import DONE, FAILED, REFUSED, Claims, SweepTable, unmet_cells
from univarfl.sweeps.schedule import Sweep

pytestmark = pytest.mark.usefixtures("fork_server")

QUICK = (*SMALL[1:], "rounds=1", "watch.tensorboard=false")


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNIVARFL_RUNS", str(tmp_path / "runs"))


def runs_in(place: Path) -> list[Path]:
    return sorted(path.parent for path in (place / "runs").glob("*/run.json"))


def ledger(place: Path) -> list[list[str]]:
    """The rows of the latest sweep."""
    with sorted((place / "runs" / "sweeps").glob("*.csv"))[-1].open(newline="") as file:
        return list(csv.reader(file))[1:]


def test_a_run_that_does_not_end_is_killed_and_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("univarfl.sweeps.job.GRACE_SECONDS", 0.1)
    job = object.__new__(Job)
    job.process = CONTEXT.Process(target=time.sleep, args=(60,))
    job.process.start()
    job.end()
    assert job.process.exitcode == -signal.SIGKILL


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_what_is_done_is_not_done_again_and_what_is_new_is_added(tmp_path: Path) -> None:
    Sweep(cells_of([*QUICK, "seed=0,1"]), jobs=2).run()
    first = runs_in(tmp_path)
    assert len(first) == 2
    Sweep(cells_of([*QUICK, "seed=0,1,2"]), jobs=2).run()
    assert len(runs_in(tmp_path)) == 3
    assert set(first) < set(runs_in(tmp_path))
    assert [row[:2] for row in ledger(tmp_path)] == [
        [f"seed={seed}", "completed"] for seed in (0, 1, 2)
    ]


def test_a_failed_cell_is_marked_and_the_others_are_finished(tmp_path: Path) -> None:
    cells = cells_of([*QUICK, "method=fedavg,freeze", "num_clients=4,500"])
    with pytest.raises(RunError) as raised:
        Sweep(cells, jobs=2).run()
    assert "2 of 4 cells have no result" in str(raised.value)
    statuses = {row[0]: row[1] for row in ledger(tmp_path)}
    assert sorted(statuses.values()) == ["completed", "completed", "failed", "failed"]
    reasons = [row[2] for row in ledger(tmp_path) if row[1] == "failed"]
    assert all("num_clients=500" in reason for reason in reasons)


def test_a_cell_without_its_data_is_refused_and_one_that_is_done_is_not(tmp_path: Path) -> None:
    root = making.tree(tmp_path / "images", ["cat", "dog"], 12)
    words = [*QUICK, "data=folder", f"data.root={root}", "num_clients=2", "partition.min_images=3"]
    Sweep(cells_of(words)).run()
    root.rename(tmp_path / "elsewhere")
    with pytest.raises(
        RunError, match=r"1 of 2 cells have no result\n  seed=1: data.root=.*: must be a directory"
    ):
        Sweep(cells_of([*words, "seed=0,1"])).run()
    assert [row[1] for row in ledger(tmp_path)] == ["completed", "refused"]


class TestProcesses:
    """The command itself, and what becomes of it from outside."""

    @contextmanager
    def start(self, place: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
        command = [str(Path(sys.executable).parent / "univarfl"), "sweep", *QUICK, *words]
        environment = os.environ | {"UNIVARFL_RUNS": str(place / "runs")}
        with subprocess.Popen(
            command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def jobs(self, process: subprocess.Popen[str]) -> list[psutil.Process]:
        """The processes that train: children of the fork server, not of the sweep."""
        own = psutil.Process(process.pid)
        direct = {child.pid for child in own.children()}
        return [child for child in own.children(recursive=True) if child.pid not in direct]

    def under_way(self, place: Path) -> bool:
        """Whether a run has a round behind it and is not over."""
        return any(
            ",train,seconds," in (run / "rounds.csv").read_text()
            and read_entries(run)["status"] == "running"
            for run in runs_in(place)
        )

    @pytest.mark.slow
    def test_a_run_that_is_killed_fails_alone(self, tmp_path: Path) -> None:
        with self.start(tmp_path, "rounds=1000", "--jobs", "1") as process:
            until(lambda: self.under_way(tmp_path))
            (job,) = self.jobs(process)
            job.kill()
            out, _ = process.communicate(timeout=60)
        assert process.returncode == 1
        (run,) = runs_in(tmp_path)
        assert read_entries(run)["status"] == "failed"
        assert "its process was killed (SIGKILL)" in read_entries(run)["reason"]
        assert "1 of 1 cells have no result" in out
        assert "Traceback" not in out

    @pytest.mark.slow
    def test_interrupted_and_killed_it_ends_as_if_nothing_had_been(self, tmp_path: Path) -> None:
        words = ("rounds=4", "method=fedavg,univarfl", "--jobs", "2")
        for how, code in ((signal.SIGTERM, 130), (signal.SIGKILL, -signal.SIGKILL)):
            with self.start(tmp_path, *words) as process:
                until(lambda: self.under_way(tmp_path))
                jobs = self.jobs(process)
                process.send_signal(how)
                assert process.wait(60) == code
            assert jobs
            assert not psutil.wait_procs(jobs, timeout=30)[1]
        for place in (tmp_path, tmp_path / "at_once"):
            with self.start(place, *words) as process:
                out, _ = process.communicate(timeout=200)
            assert process.returncode == 0, out

        def results(place: Path) -> dict[tuple[str, int], str]:
            records = [read_entries(run) for run in runs_in(place)]
            return {
                (found["config"]["method"]["name"], found["config"]["seed"]): found["model_sha256"]
                for found in records
                if found["status"] == "completed"
            }

        assert len(results(tmp_path)) == 2
        assert results(tmp_path) == results(tmp_path / "at_once")

    @pytest.mark.slow
    def test_two_sweeps_at_once_share_the_work(self, tmp_path: Path) -> None:
        words = ("rounds=2", "seed=0,1,2,3", "--jobs", "1")
        with self.start(tmp_path, *words) as one, self.start(tmp_path, *words) as other:
            for process in (one, other):
                out, _ = process.communicate(timeout=200)
                assert process.returncode == 0, out
        assert len(runs_in(tmp_path)) == 4
        assert len(list((tmp_path / "runs" / "sweeps").glob("*.csv"))) == 2


def test_a_claim_is_exclusive_until_it_is_left(tmp_path: Path) -> None:
    (cell,) = cells_of(["seed=0"])
    one, other = Claims(tmp_path), Claims(tmp_path)
    assert one.take(cell)
    assert not other.take(cell)
    one.leave(cell)
    assert other.take(cell)


def test_a_cell_whose_images_changed_is_run_again_and_the_reason_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], train: Train
) -> None:
    root = making.tree(tmp_path / "images", ["cat", "dog"], 12)
    words = ["data=folder", f"data.root={root}", "num_clients=2", "partition.min_images=3"]
    first = train(*words, *QUICK[-2:])
    making.save(root / "cat" / "pic_000.png", 100)
    Sweep(cells_of([*SMALL, *words, *QUICK[-2:]]), jobs=1).run()
    assert len(runs_in(tmp_path)) == 2
    assert f"other images than {first.name} used" in capsys.readouterr().out


def test_a_later_sweep_does_not_hide_the_failure_of_another_cell(tmp_path: Path) -> None:
    """Both sweeps call their cell "method=fedavg"; they have other rounds."""
    (tmp_path / "sweeps").mkdir()

    def note(name: str, rounds: int, status: str) -> None:
        cells = cells_of(["method=fedavg,freeze", f"rounds={rounds}"])
        sweep = SweepTable(tmp_path / "sweeps" / f"{name}.csv", cells)
        sweep.note(cells[0], status, "no memory" if status == FAILED else "")
        sweep.note(cells[1], DONE)

    note("1", 3, FAILED)
    note("2", 4, DONE)
    assert unmet_cells(tmp_path / "sweeps") == [
        "cell method=fedavg: failed: no memory (sweeps/1.csv)"
    ]
    os.mkfifo(tmp_path / "sweeps" / "0.csv")
    damaged, _ = unmet_cells(tmp_path / "sweeps")
    assert "sweeps/0.csv: cannot be read" in damaged
    (tmp_path / "sweeps" / "0.csv").unlink()
    note("3", 3, DONE)
    assert unmet_cells(tmp_path / "sweeps") == []


def test_an_invalid_cell_is_replaced_by_its_words_once_it_is_valid(tmp_path: Path) -> None:
    valid, invalid = cells_of(["method=fedavg,stochdepth"])
    SweepTable(tmp_path / "1.csv", [invalid]).note(invalid, REFUSED, invalid.refusal)
    assert len(unmet_cells(tmp_path)) == 1
    later = replace(valid, words=invalid.words, label=invalid.label)
    SweepTable(tmp_path / "2.csv", [later]).note(later, DONE)
    assert unmet_cells(tmp_path) == []
