"""Which runs go on by themselves."""

from pathlib import Path
from typing import Any

import pytest

from server_app.runs.records.run_record import read_record
from tests.server_app.runs.recorded import record
from univarfl.deploy.submitting.submission import (
    NOT_STARTED,
    SERVER_APP_GONE,
    is_decided,
    reason_to_restart,
)
from univarfl.flower.runs import RunStatus

RUNNING = {"status": "running", "reason": ""}
LOST = {"status": "failed", "reason": "the SuperLink is gone", "restartable": True}
FAILED = {"status": "failed", "reason": "the disk is full", "restartable": False}
NO_HEARTBEAT = RunStatus("finished:failed", "No heartbeat received from the task")
STOPPED = RunStatus("finished:stopped", "")


@pytest.mark.parametrize(
    ("entries", "status", "reason"),
    [
        ({"status": "completed", "reason": ""}, RunStatus("finished:completed"), ""),
        (FAILED, RunStatus("finished:failed", "ServerApp failed"), ""),
        (FAILED, NO_HEARTBEAT, ""),
        (RUNNING, STOPPED, ""),
        (LOST, STOPPED, ""),
        (None, STOPPED, ""),
        (None, RunStatus("finished:failed", "ServerApp failed with exception: no module"), ""),
        (RUNNING, RunStatus("running"), SERVER_APP_GONE),
        (RUNNING, NO_HEARTBEAT, SERVER_APP_GONE),
        (RUNNING, RunStatus(), SERVER_APP_GONE),  # a SuperLink with a new database
        (LOST, RunStatus("finished:failed", ""), "the SuperLink is gone"),
        (None, NO_HEARTBEAT, SERVER_APP_GONE),
        (None, RunStatus("starting"), SERVER_APP_GONE),
        (None, None, NOT_STARTED),
    ],
)
def test_the_end_of_a_run(
    tmp_path: Path, entries: dict[str, Any] | None, status: RunStatus | None, reason: str
) -> None:
    whole = read_record(record(tmp_path, "run", [], [0.1, 0.5])).changed(**entries or {})
    recorded = None if entries is None else whole
    assert reason_to_restart(recorded, status) == reason
    if is_decided(recorded):
        assert reason == ""
