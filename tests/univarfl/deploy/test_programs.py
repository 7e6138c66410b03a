"""The coordinator's programs when they end."""

import sys
from pathlib import Path

import pytest

from tests.machines import until
from univarfl.deploy.places import CoordinatorPlace
from univarfl.deploy.programs import MOST_RESTARTS, Program
from univarfl.engines import restarts
from univarfl.flower.programs import FlowerError


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CoordinatorPlace:
    monkeypatch.setattr(restarts, "LONGEST_PAUSE", 0.1)
    return CoordinatorPlace(tmp_path)


def program(place: CoordinatorPlace, text: str) -> Program:
    """Return a program that runs a text in Python."""
    command = [sys.executable, "-c", text]
    return Program(place, "it", command, "127.0.0.1:1", place.directory / "output")


def test_a_program_that_always_ends_is_started_a_bounded_number_of_times(
    place: CoordinatorPlace, capsys: pytest.CaptureFixture[str]
) -> None:
    ending = program(place, "print('no disk')")
    ending.start()
    with pytest.raises(FlowerError, match="ended at its start: no disk"):
        ending.wait_until_ready()

    def keep() -> bool:
        ending.keep_running()
        return False

    with pytest.raises(FlowerError, match="it ended: no disk"):
        until(keep, "the last restart", 60)
    said = capsys.readouterr().out
    assert said.count("it ended: no disk") == MOST_RESTARTS
    assert ending.output.read_text().count("no disk") == 1 + MOST_RESTARTS


def test_a_program_that_is_not_ready_does_not_keep_another_from_its_restart(
    place: CoordinatorPlace,
) -> None:
    lasting = program(place, "import time; print('again', flush=True); time.sleep(600)")
    lasting.start()
    until(lambda: "again" in lasting.output.read_text(), "the start")
    lasting.stop()
    until(lambda: lasting.has_ended, "its end")
    lasting.keep_running()
    assert not lasting.has_ended
    until(lambda: lasting.output.read_text().count("again") == 2, "the restart")
    lasting.stop()


def test_the_pause_before_a_restart_grows_until_there_is_progress() -> None:
    kept = restarts.Restarts(4)
    pauses = [kept.pause for _ in range(3) if kept.allow(progress=False)]
    assert pauses == [0, 1, 3]
    assert kept.allow(progress=True)
    assert kept.pause == 0
