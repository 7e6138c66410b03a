"""A private SuperLink and Ray: started for one run, or for the runs of a sweep, and then ended.

Flower's shared local SuperLink is a daemon that keeps the directory, environment and code path of
its first caller. This one starts in an empty directory, on free ports and with its own Flower
directory, so that its workers can import the submitted bundle only.

Ray is started beside it, while the command still imports PyTorch. Otherwise Flower would start it
after it has imported the application.
"""

import contextlib
import os
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Self

import psutil

from task.errors import ConfigError, system_reason
from univarfl.engines import ray_host
from univarfl.engines.cluster import ADDRESS
from univarfl.flower.health import is_healthy
from univarfl.flower.programs import (
    free_ports,
    start,
    stop,
    wait_until_ready,
    write_connection,
)
from univarfl.flower.supervisor import POLITE_SECONDS

SIMULATION = "flwr-simulation"  # the program of a run
LOOPBACK = "127.0.0.1"
# Where Ray keeps its sessions. The path of a socket may have 107 bytes; Ray needs these 78:
# /ray12345678/s/session_2026-11-29_05-11-59_123456_1234567/sockets/plasma_store
RAY_TMPDIR, DEFAULT_ROOT, LONGEST_ROOT = "RAY_TMPDIR", "/tmp", 107 - 78  # noqa: S108


class RunningSuperLink:
    """A SuperLink and perhaps a Ray that another process has started, for one run at a time.

    Args:
        home: the SuperLink's directory.
        pid: the process under which it runs.
        ray_cpus: the number of CPUs of its Ray. Flower starts one actor on each. 0 means no Ray:
            Flower then starts one for each run, or uses the cluster at ``$RAY_ADDRESS``.
    """

    def __init__(self, home: Path, pid: int, ray_cpus: int) -> None:
        self.home, self.pid, self.ray_cpus = home, pid, ray_cpus
        self.empty = home / "empty"
        self._variables: dict[str, str] = {}
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self, at_once: bool = False) -> None:
        """End the run and every process that `popen` has started; a second call does nothing.

        Args:
            at_once: whether the run has written its results, and ends by itself.
        """
        stop(self._processes, at_once)
        self._processes.clear()
        if not at_once:
            end_simulations(self.pid)

    def popen(self, command: list[str], output: IO[str]) -> subprocess.Popen[bytes]:
        """Start one of Flower's commands in the empty directory; `end` ends it too."""
        process = start(command, self.home, self.empty, output, self._variables)
        self._processes.append(process)
        return process

    def wait_until_ready(self) -> None:
        """Do nothing: the process that started it has waited until runs can be submitted."""

    def wait_for_ray(self) -> None:
        """Do nothing: the process that started it has waited for Ray."""


class SuperLink(RunningSuperLink):
    """A context manager around a ``flower-superlink --simulation`` process, and a Ray of its own.

    The processes start with the context, and accept runs some seconds later.

    Args:
        ray_cpus: see `RunningSuperLink`.
    """

    def __init__(self, ray_cpus: int = 0) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="univarfl-", ignore_cleanup_errors=True)
        super().__init__(Path(self._scratch.name), 0, ray_cpus)
        self.log, self.ray_log = self.home / "superlink.log", self.home / "ray.log"
        self._ray: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        if self._processes:  # started already
            return self
        self.empty.mkdir()
        port, control_port, ray_port = free_ports(3)
        self.address = f"{LOOPBACK}:{port}"
        write_connection(self.home, self.address)
        if not os.environ.get(ADDRESS):
            # Ray listens on every network interface; without the token nobody can use it.
            self._variables |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        if self.ray_cpus:
            self._start_ray(ray_port)
        with self.log.open("w") as log:
            self.process = self.popen(
                ["flower-superlink", "--insecure", "--simulation", "--isolation", "subprocess",
                 "--control-api-address", f"{LOOPBACK}:{control_port}",
                 "--host", LOOPBACK, "--port", str(port)],
                log,
            )  # fmt: skip
        self.pid = self.process.pid
        return self

    def _start_ray(self, port: int) -> None:
        """Start Ray; the workers and Flower's programs know its address from their environment."""
        self._sessions = tempfile.TemporaryDirectory(
            prefix="ray", dir=rays_root(), ignore_cleanup_errors=True
        )
        command = [sys.executable, "-P", ray_host.__file__, str(port), str(self.ray_cpus)]
        with self.ray_log.open("w") as log:
            # Ray lets every user write to the directory that it is given; the one above is ours.
            inner = str(Path(self._sessions.name, "s"))
            self._ray.append(start([*command, inner], self.home, self.empty, log, self._variables))
        self._variables[ADDRESS] = f"{LOOPBACK}:{port}"

    def end(self, at_once: bool = False) -> None:
        """End all programs and every process of their runs; a second call does nothing.

        Args:
            at_once: whether to kill them, because the run has written its results.
        """
        stop(self._processes, at_once)
        stop(self._ray, at_once=True)
        if self._ray:
            self._sessions.cleanup()
        self._processes.clear()
        self._ray.clear()
        self._scratch.cleanup()

    def wait_until_ready(self) -> None:
        """Return once runs can be submitted; Ray may need some seconds more, as the run does.

        Raises:
            FlowerError: the SuperLink ended, or was not ready in time.
        """
        wait_until_ready(lambda: is_healthy(self.address), self.process, self.log)

    def wait_for_ray(self) -> None:
        """Return once its Ray is ready, if it has one.

        Raises:
            FlowerError: Ray ended, or was not ready in time.
        """
        for ray in self._ray:
            wait_until_ready(
                lambda: ray_host.READY in self.ray_log.read_text(), ray, self.ray_log, "Ray"
            )


def rays_root() -> str:
    """Return the directory in which Ray keeps its sessions: ``$RAY_TMPDIR``, else ``/tmp``.

    Raises:
        ConfigError: it cannot be used.
    """
    root = os.environ.get(RAY_TMPDIR) or DEFAULT_ROOT
    if not Path(root).is_absolute() or len(os.fsencode(root)) > LONGEST_ROOT:
        allowed = f"must be an absolute path of at most {LONGEST_ROOT} bytes, like {DEFAULT_ROOT}"
        raise ConfigError(RAY_TMPDIR, root, allowed)
    try:
        with tempfile.TemporaryFile(dir=root):
            return root
    except OSError as error:
        reason = f"must be a directory that can be written: {system_reason(error)}"
        raise ConfigError(RAY_TMPDIR, root, f"{reason}; set another, or unset it") from None


def end_simulations(superlink: int) -> None:
    """End the processes in which a SuperLink's runs are simulated, so that their records close.

    Args:
        superlink: the process under which the SuperLink runs.
    """
    found = []
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in psutil.Process(superlink).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if any(word.endswith(SIMULATION) for word in process.cmdline()):
                    process.terminate()
                    found.append(process)
    _, stubborn = psutil.wait_procs(found, POLITE_SECONDS)
    for process in stubborn:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
