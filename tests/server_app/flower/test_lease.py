"""The lease by which a run ends with the command that submitted it."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from server_app.flower import lease as lease_module
from server_app.flower.lease import LeaseWatch, hold_lease
from server_app.rounds.errors import CommandEndedError
from server_app.runs.lock import is_locked

HOLDER = """
import sys, time
from pathlib import Path
from server_app.flower.lease import hold_lease
with hold_lease(Path(sys.argv[1])) as lease:
    print(lease, flush=True)
    time.sleep(600)
"""


def test_a_lease_is_held_until_its_holder_is_killed(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout
    lease = Path(holder.stdout.readline().strip())
    assert is_locked(lease)
    holder.kill()
    holder.wait()
    assert not is_locked(lease)
    with pytest.raises(CommandEndedError, match="has ended"), LeaseWatch(str(lease)):
        time.sleep(60)  # the exception ends the wait


def test_a_lease_that_is_held_or_that_a_run_does_not_have_raises_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_module, "LOOK_SECONDS", 0.01)
    with hold_lease(tmp_path) as lease, LeaseWatch(str(lease)):
        time.sleep(0.5)
    assert not lease.exists()


def test_a_lease_that_was_deleted_is_not_held(tmp_path: Path) -> None:
    with pytest.raises(CommandEndedError), LeaseWatch(str(tmp_path / "gone.lease")):
        time.sleep(60)
