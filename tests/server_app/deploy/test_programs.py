"""The coordinator's programs when they end."""

import sys
from pathlib import Path

import pytest

from server_app.deploy.places import CoordinatorPlace
from server_app.deploy.programs import MOST_RESTARTS, Program
from server_app.flower.programs import FlowerError


def test_a_program_that_always_ends_is_started_a_bounded_number_of_times(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "output"
    command = [sys.executable, "-c", "print('no disk')"]
    program = Program(CoordinatorPlace(tmp_path), "it", command, "127.0.0.1:1", output)
    program.start()
    with pytest.raises(FlowerError, match="ended at its start: no disk"):
        program.wait_until_ready()
    with pytest.raises(FlowerError, match="it ended: no disk"):
        program.keep_running()
    said = capsys.readouterr().out
    assert said.count("it ended: no disk") == MOST_RESTARTS
    assert output.read_text().count("no disk") == 1 + MOST_RESTARTS
