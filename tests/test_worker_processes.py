"""Runs with several workers of their own: the same bits, no port, and processes that die."""

import os
import re
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.conftest import SMALL, sha256
from tests.machines import until
from tests.processes import UNIVARFL, alive, family_of

pytestmark = pytest.mark.slow

END_SECONDS = 60.0
TWO = "federation.workers=2"


class Command:
    """A run of ``univarfl train``.

    Args:
        place: where its record and its output go.
        words: further settings.
    """

    def __init__(self, place: Path, *words: str) -> None:
        self.place = place
        place.mkdir()
        self.output = place / "said.txt"
        arguments = [UNIVARFL, "train", *SMALL[1:], *words]
        with self.output.open("w") as file:
            self.process = subprocess.Popen(
                [*arguments, f"output_dir={place / 'runs'}"], stdout=file, stderr=file,
                env={**os.environ, "UNIVARFL_MEMORY": str(place / "memory")},
            )  # fmt: skip

    def workers(self) -> list[psutil.Process]:
        """Wait for round 1, and return the workers, which are the fork server's children."""
        until(lambda: re.search(r"round +1/", self.output.read_text()), "round 1", END_SECONDS)
        family = family_of(self.process.pid)
        return [each for each in family[1:] if each.ppid() != self.process.pid]

    def completed(self) -> Path:
        """Wait until the run is completed, and return its directory."""
        assert self.process.wait(120) == 0, self.output.read_text()
        (directory,) = (self.place / "runs").iterdir()
        return directory


def test_processes_give_the_model_of_one_process_also_if_one_is_killed(tmp_path: Path) -> None:
    """SCAFFOLD keeps a state for each client, which any of the workers may need next."""
    words = ("method=scaffold", "rounds=6", "local_epochs=2")
    killed = Command(tmp_path / "killed", *words, TWO)
    workers = killed.workers()
    assert len(workers) == 2
    workers[0].kill()
    alone = Command(tmp_path / "alone", *words, "federation.workers=1").completed()
    assert sha256(killed.completed()) == sha256(alone)
    said = killed.output.read_text()
    assert "a worker's process has ended (SIGKILL); the workers are restarted" in said


def test_no_process_of_a_run_opens_a_port(tmp_path: Path) -> None:
    command = Command(tmp_path / "run", "rounds=500", TWO)
    assert len(command.workers()) == 2
    family = family_of(command.process.pid)
    listening = [one for each in family for one in each.net_connections() if one.status == "LISTEN"]
    command.process.send_signal(signal.SIGINT)
    assert command.process.wait(END_SECONDS) == 130
    assert listening == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_the_workers_end_with_the_command(tmp_path: Path, number: int, code: int) -> None:
    command = Command(tmp_path / "run", "rounds=500", TWO)
    command.workers()
    family = family_of(command.process.pid)
    command.process.send_signal(number)
    assert command.process.wait(END_SECONDS) == code
    until(lambda: not alive(family), "the end of the workers", END_SECONDS)


def test_a_terminals_ctrl_c_ends_the_command_with_one_line(tmp_path: Path) -> None:
    """A terminal sends it to every process of the group."""
    command = Command(tmp_path / "run", "rounds=500", TWO)
    family = [command.process.pid, *(each.pid for each in command.workers())]
    for pid in family:
        os.kill(pid, signal.SIGINT)
    assert command.process.wait(END_SECONDS) == 130
    assert "Traceback" not in command.output.read_text()


def test_ctrl_c_while_the_workers_code_is_imported_ends_the_command_with_one_line(
    tmp_path: Path,
) -> None:
    command = Command(tmp_path / "run", "rounds=500", TWO)
    until(lambda: len(family_of(command.process.pid)) > 1, "the fork server", END_SECONDS)
    for each in family_of(command.process.pid):
        each.send_signal(signal.SIGINT)
    assert command.process.wait(END_SECONDS) == 130
    assert "Traceback" not in command.output.read_text()


def test_a_failure_of_a_client_is_in_the_record_and_its_log(tmp_path: Path) -> None:
    """The learning rate makes every client's loss infinite."""
    command = Command(tmp_path / "run", "optim.lr=1e30", TWO)
    assert command.process.wait(120) == 1
    (directory,) = (tmp_path / "run" / "runs").iterdir()
    assert "failed in round 1" in (directory / "run.log").read_text()
