"""The worker of a site when it cannot be started again."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.machines import until
from univarfl.deploy.places import SitePlace
from univarfl.deploy.site import worker_process
from univarfl.deploy.site.worker_process import MOST_RESTARTS, SiteWorker


def test_a_worker_that_cannot_be_started_again_ends_the_supernode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def start(*_: object) -> "subprocess.Popen[bytes]":
        if started:
            raise OSError(12, "Cannot allocate memory")
        command = [sys.executable, "-c", "print('no memory')"]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE))
        return started[0]

    monkeypatch.setattr(worker_process, "start", start)
    monkeypatch.setattr(worker_process, "PAUSE_SECONDS", 0.0)
    supernode = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with SiteWorker(SitePlace(tmp_path), supernode, 1) as worker:
        until(lambda: worker.failed, "the end of the restarts")
    assert supernode.wait(60) != 0
    said = capsys.readouterr().out
    assert said.count("it could not be started: ") == MOST_RESTARTS
    assert "Cannot allocate memory" in said
