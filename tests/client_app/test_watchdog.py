"""The watchdog ends a hanging worker's process, but never the command of an in-process run."""

import subprocess
import sys
from pathlib import Path

import pytest

SMALL = (
    "engine=inprocess", "rounds=1", "local_epochs=1", "num_clients=2", "partition=iid",
    "method=fedavg", "model=linear", "data.image_size=8", "watch.tensorboard=false",
)  # fmt: skip

SECONDS = 1200  # for a child that imports PyTorch on a busy machine

HANGING = """
import sys, time
from client_app import handlers

handlers.GRACE_SECONDS = 0.2
with handlers.process_ended_after(0.1, {"partition-id": 0}):
    time.sleep(9999)
print("still there")
"""

LONG_VALIDATION = """
import time
from client_app import handlers
from server_app.config.composition import compose_experiment
from univarfl.engines.train import train_experiment
from task.training.worker import Worker

validate = Worker.validate

def slow(self, weights, clients):
    time.sleep(1)
    return validate(self, weights, clients)

Worker.validate = slow
handlers.GRACE_SECONDS = -59.5  # the watchdog would end the process after half a second
words = {words}
train_experiment(compose_experiment(words), words)
print("ended with a record")
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )


def test_a_hanging_workers_process_is_ended() -> None:
    done = run(HANGING)
    assert "still there" not in done.stdout
    assert "Timeout" in done.stderr
    assert done.returncode


@pytest.mark.slow
def test_a_long_validation_does_not_end_an_in_process_run(tmp_path: Path) -> None:
    """It takes longer than the watchdog allows; the command used to end without a word."""
    words = [*SMALL, "federation.round_timeout=60", f"output_dir={tmp_path}", "run_id=slow"]
    done = run(LONG_VALIDATION.replace("{words}", repr(words)))
    assert "ended with a record" in done.stdout, done.stdout + done.stderr
    assert '"status": "completed"' in (tmp_path / "slow" / "run.json").read_text()
