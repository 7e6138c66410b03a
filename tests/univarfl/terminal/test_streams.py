"""Commands whose standard streams are closed, full, cut off or not UTF-8."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import SMALL, with_slow
from tests.processes import UNIVARFL
from tests.server_app.runs.recorded import record
from tests.univarfl.cli.test_cli import run
from univarfl.terminal.streams import output_to

NO_UTF_8 = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
FURTHER = ("runs $R/none", "--help")  # commands


def shell(line: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run a shell's line, in which $U is the command."""
    environment = {**os.environ, "U": UNIVARFL, **variables}
    return subprocess.run(
        ["bash", "-c", line],
        env=environment, capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs; the name of one is not ASCII."""
    place = tmp_path_factory.mktemp("runs")
    for name in ("one", "two"):
        record(place, name, [], [0.1, 0.5])
    (place / "two").rename(place / "cafédeux")
    return place


@pytest.mark.parametrize("words", ["runs", "train method=none", *with_slow(FURTHER, FURTHER)])
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_changes_no_exit_code(runs: Path, words: str, closed: str) -> None:
    words = words if words != "runs" else "runs $R"
    expected = shell(f"$U {words}", R=str(runs))
    found = shell(f"$U {words} {closed}", R=str(runs))
    assert found.returncode == expected.returncode
    assert found.stdout in ("", expected.stdout)
    assert found.stderr in ("", expected.stderr)


def test_what_only_prints_fails_if_the_disk_is_full(runs: Path) -> None:
    found = shell("$U runs $R > /dev/full", R=str(runs))
    assert found.returncode == 1
    assert found.stderr == "univarfl: the output cannot be written: no space left on device\n"


def test_an_error_that_cannot_be_printed_keeps_its_exit_code() -> None:
    assert shell("$U train method=none 2> /dev/full").returncode == 2
    assert shell("$U train method=none 2>&1 | true; exit ${PIPESTATUS[0]}").returncode == 2


@pytest.mark.parametrize("words", ["runs $R", "list keys"])
def test_a_reader_that_has_gone_ends_the_command_quietly(runs: Path, words: str) -> None:
    found = shell(f"$U {words} | head -n 0; exit ${{PIPESTATUS[0]}}", R=str(runs))
    assert (found.returncode in (0, 141), found.stderr) == (True, "")


@pytest.mark.parametrize(
    ("variables", "shown"),
    [
        ({"PYTHONIOENCODING": "ascii"}, "caf\\xe9deux"),
        ({"PYTHONIOENCODING": "latin-1"}, "caf\ufffddeux"),
        ({"LC_ALL": "C", **NO_UTF_8}, "deux"),
        ({"LC_ALL": "POSIX"}, "cafédeux"),
    ],
)
def test_every_run_is_listed_in_every_encoding(
    runs: Path, variables: dict[str, str], shown: str
) -> None:
    found = shell("$U runs $R", R=str(runs), **variables)
    assert (found.returncode, found.stderr) == (0, "")
    assert "one" in found.stdout
    assert shown in found.stdout


def test_output_that_is_not_buffered_is_written_at_once() -> None:
    """A service's log must show that it is ready while it runs (``PYTHONUNBUFFERED``)."""
    code = (
        "import os, sys\n"
        "from univarfl.terminal.streams import prepare_streams\n"
        "prepare_streams()\n"
        "print('ready')\n"
        "print('to see', file=sys.stderr)\n"
        "os._exit(0)\n"  # without a flush
    )
    done = subprocess.run(
        [sys.executable, "-u", "-c", code], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("ready\n", "to see\n")


def test_a_run_is_completed_although_nothing_can_be_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("UNIVARFL_RUNS", str(tmp_path / "runs"))
    with Path("/dev/full").open("wb", buffering=0) as full:
        monkeypatch.setattr("sys.stdout", output_to(os.fdopen(os.dup(full.fileno()), "wb")))
        assert run(monkeypatch, "train", *SMALL, "model=linear", "rounds=1") == 0
    assert capsys.readouterr().err == (
        "univarfl: the output cannot be written: no space left on device\n"
    )
    (log,) = (tmp_path / "runs").glob("*/run.log")
    assert "round 1/1" in log.read_text()


def test_ctrl_c_while_the_command_is_imported_is_one_line() -> None:
    code = (
        "import os, signal, sys\n"
        "from importlib.abc import MetaPathFinder\n"
        "class Interrupt(MetaPathFinder):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'univarfl.cli.train':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "from univarfl.command import main\n"
        "main()\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stdout) == (130, "")
    assert found.stderr == "univarfl: interrupted\n"
