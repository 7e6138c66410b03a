"""Run one program and end it, with every process it started, when the caller ends.

Called as ``python supervisor.py CALLER_PID PROGRAM ARGUMENT...``. A killed caller cannot clean up,
so two small processes watch on its behalf: an outer one watches the caller, and an inner one
watches the outer. Whichever of the three is killed, another one ends the program. On Linux both
are child subreapers: processes that were started in a session of their own, or whose parent ended,
become their children and cannot escape. Elsewhere only the processes seen at the end are ended.

This file imports no other module of the project, so that it starts in some 50 ms.
"""

import contextlib
import ctypes
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from typing import NoReturn

import psutil

PR_SET_CHILD_SUBREAPER = 36
ASKED_TO_END = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
AT_ONCE = signal.SIGUSR1  # asks to kill the program and its processes without SIGTERM first
SIGNALS = (*ASKED_TO_END, AT_ONCE)
RESET = (*SIGNALS, signal.SIGPIPE, signal.SIGXFSZ)  # Python ignores the last two
CALLER_SECONDS = 0.5  # how soon the end of the caller is noticed
POLITE_SECONDS, FORCE_SECONDS = 15.0, 5.0
POLL_SECONDS = 0.1


class Watch:
    """A wait for the end of a child, of the parent, or for a signal that asks to end.

    Attributes:
        asked: whether such a signal has arrived.
        at_once: whether `AT_ONCE` has.
    """

    def __init__(self) -> None:
        self.asked = self.at_once = False
        self._read, write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in SIGNALS:
            signal.signal(number, self._ask)

    def _ask(self, number: int, _: object) -> None:
        self.asked = True
        self.at_once |= number == AT_ONCE

    def wait(self, child: int, parent: int) -> int | None:
        """Return the child's wait status, or None if the parent ended or a signal came first."""
        while not self.asked and os.getppid() == parent:
            select.select([self._read], [], [], CALLER_SECONDS)
            with contextlib.suppress(BlockingIOError):
                os.read(self._read, 1024)
            for pid, status in ended_children():
                if pid == child:
                    return status
        return None


def supervise(caller: int, command: Sequence[str]) -> NoReturn:
    """Run a command until it ends, the caller ends, or a signal asks for its end."""
    adopt_orphans()
    watch = Watch()
    outer = os.getpid()
    inner = os.fork()
    if inner == 0:
        stand_by(outer, command)
    status = watch.wait(inner, caller)
    end_family(watch.at_once)
    exit_like(status or 0)


def stand_by(outer: int, command: Sequence[str]) -> NoReturn:
    """Run the command; end it if the outer supervisor ends first.

    Signals that ask for the end are ignored: the outer supervisor sends them to the command too.
    """
    adopt_orphans()
    watch = Watch()
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    program = os.fork()
    if program == 0:
        execute(command)
    status = watch.wait(program, outer)
    if status is None:
        end_family()
    exit_like(status or 0)


def execute(command: Sequence[str]) -> NoReturn:
    """Become the command, in a session of its own and with the default signal handlers."""
    os.setsid()
    for number in RESET:
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execv(command[0], list(command))  # noqa: S606  (the caller's arguments, no shell)
    except OSError as error:
        print(f"{command[0]} cannot be started: {error}", file=sys.stderr, flush=True)
        os._exit(127)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def ended_children() -> Iterator[tuple[int, int]]:
    """Yield the process id and wait status of each child that has ended."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            yield ended


def has_children() -> bool:
    """Whether any child is left, after removing those that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def end_family(at_once: bool = False) -> None:
    """End every descendant: SIGTERM once, and SIGKILL after `POLITE_SECONDS`, or at once."""
    family: set[psutil.Process] = set()
    polite = (signal.SIGTERM, POLITE_SECONDS)
    for number, seconds in (*([] if at_once else [polite]), (signal.SIGKILL, FORCE_SECONDS)):
        asked: set[psutil.Process] = set()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            family.update(psutil.Process().children(recursive=True))
            alive = set(filter(is_alive, family))
            if not alive and not has_children():
                return
            for process in alive - asked:
                with contextlib.suppress(psutil.Error):
                    process.send_signal(number)
            asked |= alive
            time.sleep(POLL_SECONDS)


def is_alive(process: psutil.Process) -> bool:
    """Whether a process runs; one that has ended but was not waited for does not."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def exit_like(status: int) -> NoReturn:
    """End this process as another one ended: with its exit code, or by the same signal."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    supervise(int(sys.argv[1]), sys.argv[2:])
