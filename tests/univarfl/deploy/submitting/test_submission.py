"""Which runs go on by themselves."""

from typing import Any

import pytest

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
    ("recorded", "status", "reason"),
    [
        ({"status": "completed", "reason": ""}, RunStatus("finished:completed"), ""),
        (FAILED, RunStatus("finished:failed", "ServerApp failed"), ""),
        (FAILED, NO_HEARTBEAT, ""),
        (RUNNING, STOPPED, ""),
        (LOST, STOPPED, ""),
        ({}, STOPPED, ""),
        ({}, RunStatus("finished:failed", "ServerApp failed with exception: no module"), ""),
        (RUNNING, RunStatus("running"), SERVER_APP_GONE),
        (RUNNING, NO_HEARTBEAT, SERVER_APP_GONE),
        (RUNNING, RunStatus(), SERVER_APP_GONE),  # a SuperLink with a new database
        (LOST, RunStatus("finished:failed", ""), "the SuperLink is gone"),
        ({}, NO_HEARTBEAT, SERVER_APP_GONE),
        ({}, RunStatus("starting"), SERVER_APP_GONE),
        ({}, None, NOT_STARTED),
    ],
)
def test_the_end_of_a_run(recorded: dict[str, Any], status: RunStatus | None, reason: str) -> None:
    assert reason_to_restart(recorded, status) == reason
    if is_decided(recorded):
        assert reason == ""
