"""A SuperLink of one's own: started for one run, ended with it.

Flower's shared local SuperLink is a daemon that keeps the directory, the environment and the code
path of whoever started it first. This one starts in an empty directory, on free ports, with a
Flower home of its own, so that nothing but the submitted bundle can be imported.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, ClassVar, Self

import psutil

from task.errors import RunError

START_SECONDS = 60.0
STOP_SECONDS = 15.0
CONNECTION = "univarfl"


class SuperLinkError(RunError):
    """The SuperLink could not be started; the text says why."""


class SuperLink:
    """A context manager around a ``flower-superlink --simulation`` process.

    It starts with the context, and is ready some seconds later.
    """

    options: ClassVar[Sequence[str]] = ("--simulation",)

    def __init__(self) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="univarfl-", ignore_cleanup_errors=True)
        self.home = Path(self._scratch.name)
        self.empty = self.home / "empty"
        self.log = self.home / "superlink.log"
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        self.empty.mkdir()
        port, control_port = free_ports(2)
        self.address = f"127.0.0.1:{port}"
        connection = f'[superlink.{CONNECTION}]\naddress = "{self.address}"\ninsecure = true\n'
        (self.home / "config.toml").write_text(
            f'[superlink]\ndefault = "{CONNECTION}"\n\n{connection}'
        )
        with self.log.open("w") as log:
            self.process = self.popen(
                ["flower-superlink", "--insecure", *self.options, "--isolation", "subprocess",
                 "--control-api-address", f"127.0.0.1:{control_port}",
                 "--host", "127.0.0.1", "--port", str(port)],
                log,
            )  # fmt: skip
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end()

    def end(self) -> None:
        """End it, and every process of its runs; once is enough."""
        stop(self._processes)
        self._processes.clear()
        self._scratch.cleanup()

    def popen(self, command: list[str], output: IO[str]) -> subprocess.Popen[bytes]:
        """Start one of Flower's commands in the empty directory; it ends with the SuperLink."""
        scripts = Path(sys.executable).parent
        environment = {
            **os.environ,
            "PATH": f"{scripts}{os.pathsep}{os.environ.get('PATH', '')}",
            "FLWR_HOME": str(self.home),
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_TELEMETRY_ENABLED": "0",
            "RAY_DEDUP_LOGS": "0",
            # Ray would start a worker per core that no client can use: Flower asks for others.
            "RAY_prestart_worker_first_driver": "0",
            "RAY_enable_worker_prestart": "0",
        }
        program = shutil.which(command[0], path=environment["PATH"])
        if program is None:
            raise SuperLinkError(f"{command[0]} is not installed beside {sys.executable}")
        process = subprocess.Popen(  # noqa: S603  (our own words, no shell)
            [program, *command[1:]],
            cwd=self.empty,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._processes.append(process)
        return process

    def wait_until_ready(self) -> None:
        """Return once runs can be submitted.

        Raises:
            SuperLinkError: it ended, or took too long.
        """
        url = f"http://{self.address}/health"
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise SuperLinkError(f"flower-superlink ended at once: {last_line(self.log)}")
            try:
                with urllib.request.urlopen(url, timeout=1):
                    return
            except (urllib.error.URLError, TimeoutError, ConnectionError):
                time.sleep(0.1)
        raise SuperLinkError(f"flower-superlink was not ready within {START_SECONDS:g} s")


def superlink_of(engine: str) -> contextlib.AbstractContextManager[SuperLink | None]:
    """What an engine needs to be started before it: a SuperLink, or nothing."""
    return SuperLink() if engine == "flower" else contextlib.nullcontext()


def stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End processes and all that they started, asking first.

    Flower runs each simulation in a session of its own, which outlives a SuperLink that is told to
    end; so the whole family is looked up before anybody is.
    """
    family: list[psutil.Process] = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            parent = psutil.Process(process.pid)
            family += [*parent.children(recursive=True), parent]
    for end in (psutil.Process.terminate, psutil.Process.kill):
        for member in filter(lives, family):
            with contextlib.suppress(psutil.NoSuchProcess):
                end(member)
        deadline = time.monotonic() + STOP_SECONDS
        while any(map(lives, family)) and time.monotonic() < deadline:
            time.sleep(0.1)
    for process in processes:
        process.wait(STOP_SECONDS)


def lives(process: psutil.Process) -> bool:
    """Whether a process still runs; one that ended and was not yet buried does not."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def free_ports(count: int) -> list[int]:
    """So many TCP ports that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def last_line(path: Path) -> str:
    """The last line of a text file that is not blank."""
    lines = [line.strip() for line in path.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
