"""A run stops, with a clear word, before the system ends it for want of memory."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import server_app.rounds.round
from server_app.config.composition import compose_experiment
from server_app.config.resuming import whole_words
from server_app.rounds.errors import RunFailedError
from server_app.rounds.round import bytes_per_round, check_memory
from task.errors import RunError
from tests.conftest import SMALL, Train, sha256


def test_what_is_there_is_compared_with_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    left = iter([2 * 10**9, 10**9, 10**9])
    monkeypatch.setattr(server_app.rounds.round, "available_bytes", lambda: next(left))
    check_memory(3, 10**9)
    with pytest.raises(
        RunFailedError, match=r"round 3: .* about 1,200 MB .* process, and 1,000 MB are left"
    ):
        check_memory(3, 10**9)


def test_the_run_stops_and_goes_on_when_there_is_more(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = iter([10**10, 10**7, 10**7])
    with monkeypatch.context() as patch:
        patch.setattr(server_app.rounds.round, "available_bytes", lambda: next(left))
        with pytest.raises(RunError, match=r"round 2: memory is short.*univarfl train resume="):
            train("run_id=short")
    directory = train(*whole_words([f"resume={tmp_path / 'runs' / 'short'}"]))
    assert sha256(directory) == sha256(train())


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps it")
def test_memory_that_earlier_rounds_have_freed_is_returned_before_a_run_is_stopped() -> None:
    """glibc keeps what a round frees, and the system counts it as used."""
    script = """
import psutil
import torch
from server_app.rounds.errors import RunFailedError
from server_app.rounds.round import check_memory
from task.training.device import prepare_process

prepare_process()
held = [torch.ones(2**20) for _ in range(100)]  # 4 MiB each
above = torch.ones(2**20)  # so that the heap cannot shrink by itself
del held
kept = psutil.Process().memory_info().rss
try:
    check_memory(2, 10**18)
except RunFailedError:
    print(kept - psutil.Process().memory_info().rss)
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert int(done.stdout) > 300_000_000


def test_a_buffer_needs_memory_for_its_updates_and_not_for_all_who_train() -> None:
    def memory(clients: int) -> int:
        words = [
            *SMALL, f"num_clients={clients}", "clock=virtual", "strategy=fedbuff",
            "strategy.buffer_size=3", "guard=clip",
        ]  # fmt: skip
        experiment = compose_experiment(words)
        return bytes_per_round(experiment, {"layer": torch.zeros(10)})

    assert memory(4) == memory(20)
