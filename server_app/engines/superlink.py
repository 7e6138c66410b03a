"""A private SuperLink and Ray: started for one run and ended with it.

Flower's shared local SuperLink is a daemon that keeps the directory, environment and code path of
its first caller. This one starts in an empty directory, on free ports and with its own Flower
directory, so that its workers can import the submitted bundle only.

Ray is started beside it, while the command still imports PyTorch. Otherwise Flower would start it
after it has imported the application.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Self

from server_app.engines.cluster import ADDRESS
from server_app.flower.programs import (
    free_ports,
    is_healthy,
    start,
    stop,
    wait_until_ready,
    write_connection,
)
from task.trained_clients import TRAINED_CLIENTS, TrainedClients

CLIENTS = "trained_clients.txt"
LOOPBACK = "127.0.0.1"
RAY_HOST = Path(__file__).with_name("ray_host.py")
READY = "Ray is ready"  # what it prints
RAYS_ROOT = "/tmp"  # noqa: S108  (Ray's own; the path of a socket in it may have 107 characters)


class SuperLink:
    """A context manager around a ``flower-superlink --simulation`` process, and a Ray of its own.

    The processes start with the context, and accept runs some seconds later.

    Args:
        ray_cpus: the number of CPUs of its Ray, on each of which Flower starts one actor; 0 for no
            Ray: Flower then starts one for each run, or uses the cluster at ``$RAY_ADDRESS``.
    """

    def __init__(self, ray_cpus: int = 0) -> None:
        self.ray_cpus = ray_cpus
        self._scratch = tempfile.TemporaryDirectory(prefix="univarfl-", ignore_cleanup_errors=True)
        self.home = Path(self._scratch.name)
        self.empty = self.home / "empty"
        self.log = self.home / "superlink.log"
        self.trained_clients = TrainedClients(self.home / CLIENTS)
        self._variables = {TRAINED_CLIENTS: str(self.home / CLIENTS)}
        self._processes: list[subprocess.Popen[bytes]] = []
        self._ray: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        if self._processes:  # started already
            return self
        self.empty.mkdir()
        port, control_port, ray_port = free_ports(3)
        self.address = f"{LOOPBACK}:{port}"
        write_connection(self.home, self.address)
        if self.ray_cpus:
            self._start_ray(ray_port)
        with self.log.open("w") as log:
            self.process = self.popen(
                ["flower-superlink", "--insecure", "--simulation", "--isolation", "subprocess",
                 "--control-api-address", f"{LOOPBACK}:{control_port}",
                 "--host", LOOPBACK, "--port", str(port)],
                log,
            )  # fmt: skip
        return self

    def _start_ray(self, port: int) -> None:
        """Start Ray; the workers and Flower's programs know its address from their environment."""
        self._sessions = tempfile.TemporaryDirectory(
            prefix="ray", dir=RAYS_ROOT, ignore_cleanup_errors=True
        )
        self.ray_log = self.home / "ray.log"
        with self.ray_log.open("w") as log:
            command = [sys.executable, "-P", str(RAY_HOST), str(port), str(self.ray_cpus)]
            ray = start(
                [*command, self._sessions.name], self.home, self.empty, log, self._variables
            )
        self._ray.append(ray)
        self._variables[ADDRESS] = f"{LOOPBACK}:{port}"

    def __exit__(self, *_: object) -> None:
        self.end()

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

    def popen(self, command: list[str], output: IO[str]) -> subprocess.Popen[bytes]:
        """Start one of Flower's commands in the empty directory; `end` ends it too."""
        process = start(command, self.home, self.empty, output, self._variables)
        self._processes.append(process)
        return process

    def wait_until_ready(self) -> None:
        """Return once runs can be submitted.

        Raises:
            FlowerError: a program ended, or was not ready in time.
        """
        wait_until_ready(lambda: is_healthy(self.address), self.process, self.log)
        for ray in self._ray:
            wait_until_ready(lambda: READY in self.ray_log.read_text(), ray, self.ray_log, "Ray")
