"""A run stops, with a clear word, before the system ends it for want of memory."""

from pathlib import Path

import pytest

import server_app.rounds.memory_check
from server_app.config.resuming import whole_words
from server_app.rounds.errors import RunFailedError
from server_app.rounds.memory_check import check_memory
from task.errors import RunError
from tests.conftest import Train, sha256


def test_what_is_there_is_compared_with_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    left = iter([2 * 10**9, 10**9])
    monkeypatch.setattr(server_app.rounds.memory_check, "available_bytes", lambda: next(left))
    check_memory(3, 10**9)
    with pytest.raises(
        RunFailedError, match=r"round 3: .* about 1,200 MB .* process, and 1,000 MB are left"
    ):
        check_memory(3, 10**9)


def test_the_run_stops_and_goes_on_when_there_is_more(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = iter([10**10, 10**7])
    with monkeypatch.context() as patch:
        patch.setattr(server_app.rounds.memory_check, "available_bytes", lambda: next(left))
        with pytest.raises(RunError, match=r"round 2: memory is short.*univarfl train resume="):
            train("run_id=short")
    directory = train(*whole_words([f"resume={tmp_path / 'runs' / 'short'}"]))
    assert sha256(directory) == sha256(train())
