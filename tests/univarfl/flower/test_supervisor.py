"""The supervisor ends all processes of a program, whichever ends first and by which signal."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.machines import until
from tests.processes import alive
from univarfl.flower import supervisor
from univarfl.flower.programs import start, stop

# A program with a child, a grandchild in a session of its own, and a daemon whose parent has ended.
# It writes their process ids, and ignores SIGTERM if asked to.
PROGRAM = """
import json, os, signal, subprocess, sys, time
if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # inherited by all of them
sleep = ["sleep", "600"]
child = subprocess.Popen(sleep)
session = subprocess.Popen(sleep, start_new_session=True)
shell = subprocess.run(
    ["setsid", "sh", "-c", "sleep 600 >/dev/null & echo $!"], stdout=subprocess.PIPE, check=True
)
pids = [os.getpid(), child.pid, session.pid, int(shell.stdout)]
with open(sys.argv[1] + ".new", "w") as file:
    json.dump(pids, file)
os.rename(sys.argv[1] + ".new", sys.argv[1])
if "short" in sys.argv:
    sys.exit(7)
time.sleep(600)
"""
# A command that starts that program under supervision and waits, or copies itself first.
CALLER = """
import os, signal, subprocess, sys, time
from pathlib import Path
from univarfl.flower.programs import start
signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell in the background ignores it
process = start([sys.executable, "-c", *sys.argv[1:]], Path("."), Path("."), subprocess.DEVNULL)
if "fork" in sys.argv and os.fork() == 0:
    os.setsid()
    time.sleep(600)
print(process.pid, flush=True)
time.sleep(600)
"""


def family_in(path: Path) -> list[psutil.Process]:
    """Return the program's processes once it has written their ids."""
    until(path.exists, "the program's start", 20)
    return [psutil.Process(pid) for pid in json.loads(path.read_text())]


def has_ended(family: list[psutil.Process]) -> bool:
    return alive(family) == []


def caller(path: Path, *words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", CALLER, PROGRAM, str(path), *words],
        stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def program(path: Path, *words: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-c", PROGRAM, str(path), *words]
    return start(command, path.parent, path.parent, subprocess.DEVNULL)


@pytest.mark.parametrize("word", ["", "fork"])
def test_a_killed_callers_family_ends_and_no_other(tmp_path: Path, word: str) -> None:
    """Even if a copy of the caller still runs and holds its open files."""
    killed, other = caller(tmp_path / "killed", word), caller(tmp_path / "other")
    family, others = family_in(tmp_path / "killed"), family_in(tmp_path / "other")
    copies = psutil.Process(killed.pid).children()
    killed.kill()
    until(lambda: has_ended(family), "the end of the family", 20)
    assert alive(others) == others
    other.kill()
    until(lambda: has_ended(others), "the end of the other family", 20)
    for process in alive(copies):
        process.kill()
    killed.wait(), other.wait()


def test_a_stopped_caller_can_still_be_killed(tmp_path: Path) -> None:
    stopped = caller(tmp_path / "pids")
    family = family_in(tmp_path / "pids")
    stopped.send_signal(signal.SIGSTOP)
    time.sleep(2 * supervisor.CALLER_SECONDS)
    assert alive(family) == family
    stopped.kill()
    until(lambda: has_ended(family), "the end of the family", 20)
    stopped.wait()


@pytest.mark.parametrize("which", [0, 1])
def test_a_killed_supervisors_family_ends(tmp_path: Path, which: int) -> None:
    """If the outer supervisor is killed, the inner one ends the family, and the reverse."""
    process = program(tmp_path / "pids")
    family = family_in(tmp_path / "pids")
    outer = psutil.Process(process.pid)
    (inner,) = outer.children()
    [outer, inner][which].kill()
    until(lambda: has_ended([*family, inner]), "the end of the family", 20)
    assert process.wait(20) == -signal.SIGKILL


def test_ctrl_c_in_the_callers_process_group_ends_the_family(tmp_path: Path) -> None:
    interrupted = caller(tmp_path / "pids")
    family = family_in(tmp_path / "pids")
    os.killpg(interrupted.pid, signal.SIGINT)
    until(lambda: has_ended(family), "the end of the family", 20)
    assert interrupted.wait() == -signal.SIGINT


def test_stop_ends_the_whole_family_before_it_returns(tmp_path: Path) -> None:
    processes = [program(tmp_path / "one"), program(tmp_path / "two")]
    family = [*family_in(tmp_path / "one"), *family_in(tmp_path / "two")]
    assert len(alive(family)) == 8
    stop(processes)
    assert alive(family) == []
    stop(processes)


def test_the_family_ends_with_the_program_whose_exit_code_is_kept(
    tmp_path: Path,
) -> None:
    process = program(tmp_path / "pids", "short")
    assert process.wait(20) == 7
    for pid in json.loads((tmp_path / "pids").read_text()):
        assert not psutil.pid_exists(pid)


def test_a_program_that_ignores_sigterm_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasty = tmp_path / "hasty.py"
    source, seconds = Path(supervisor.__file__).read_text(), "POLITE_SECONDS, FORCE_SECONDS = "
    assert source.count(f"{seconds}15.0, ") == 1
    hasty.write_text(source.replace(f"{seconds}15.0, ", f"{seconds}0.2, "))
    monkeypatch.setattr(supervisor, "__file__", str(hasty))
    process = program(tmp_path / "pids", "stubborn")
    family = family_in(tmp_path / "pids")
    stop([process])
    assert alive(family) == []


def test_at_once_a_program_is_killed_before_it_can_answer_sigterm(tmp_path: Path) -> None:
    answered = tmp_path / "answered"
    code = (
        "import signal, sys, time; from pathlib import Path\n"
        "signal.signal(signal.SIGTERM, lambda *_: Path(sys.argv[1]).touch())\n"
        "print('ready', flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", code, str(answered)]
    process = start(command, tmp_path, tmp_path, subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    family = psutil.Process(process.pid).children(recursive=True)
    stop([process], at_once=True)
    assert alive(family) == []
    assert not answered.exists()


def test_a_program_killed_by_a_signal_is_reported_as_that(tmp_path: Path) -> None:
    process = program(tmp_path / "pids")
    family = family_in(tmp_path / "pids")
    family[0].kill()
    assert process.wait(20) == -signal.SIGKILL
    assert alive(family) == []


def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    """The supervisor prints the reason and ends with the exit code that a shell would use."""
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    process = start([str(broken)], tmp_path, tmp_path, subprocess.PIPE)
    output, _ = process.communicate(timeout=20)
    assert process.returncode == 127
    assert f"{broken} cannot be started: " in output.decode()
