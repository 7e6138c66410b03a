"""Who is at work on a run, and how its record is closed by others."""

from pathlib import Path

import pytest

from server_app.runs.lock import hold
from server_app.runs.records.run_record import read_entries
from server_app.runs.records.tables import count_rounds
from task.errors import ConfigError
from tests.server_app.runs.recorded import record, write_entries
from univarfl.records.status import close_record, is_held, mark_interrupted


def test_a_run_that_is_held_is_nobody_elses(tmp_path: Path) -> None:
    assert not is_held(tmp_path / "none")
    assert not is_held(tmp_path)
    lock = hold(tmp_path)
    assert is_held(tmp_path)
    with pytest.raises(ConfigError, match="another process is running it"):
        hold(tmp_path)
    lock.release()
    assert not is_held(tmp_path)


def test_only_a_record_that_says_running_is_closed(tmp_path: Path) -> None:
    close_record(tmp_path, "nothing there")
    assert not (tmp_path / "run.json").exists()
    run = record(tmp_path, "run", ["engine=inprocess"], [0.1, 0.5])
    close_record(run, "too late")
    assert read_entries(run)["status"] == "completed"
    text = (run / "run.json").read_text().replace('"completed"', '"running"')
    (run / "run.json").write_text(text)
    close_record(run, "it was killed")
    found = read_entries(run)
    assert (found["status"], found["reason"]) == ("failed", "it was killed")


def test_a_run_that_is_interrupted_says_so_whatever_its_workers_said(tmp_path: Path) -> None:
    """They die while it is ended, and its server may notice before it is ended itself."""
    run = record(tmp_path, "run", [], [0.1, 0.5])
    mark_interrupted(run)
    assert read_entries(run)["status"] == "completed"
    lost = {"status": "failed", "reason": "a worker's process has ended", "restartable": True}
    write_entries(run, read_entries(run) | lost)
    mark_interrupted(run)
    found = read_entries(run)
    assert (found["reason"], found["restartable"]) == ("interrupted", False)


def test_count_rounds(tmp_path: Path) -> None:
    assert count_rounds(tmp_path) == 0
    assert count_rounds(record(tmp_path, "run", [], [0.1, 0.5, 0.6])) == 2
