"""A private SuperLink: started for one run and ended with it.

Flower's shared local SuperLink is a daemon that keeps the directory, environment and code path of
its first caller. This one starts in an empty directory, on free ports and with its own Flower
directory, so that its workers can import the submitted bundle only.
"""

import contextlib
import subprocess
import tempfile
from pathlib import Path
from typing import IO, Self

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


class SuperLink:
    """A context manager around a ``flower-superlink --simulation`` process.

    The process starts with the context, and accepts runs some seconds later.
    """

    def __init__(self) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="univarfl-", ignore_cleanup_errors=True)
        self.home = Path(self._scratch.name)
        self.empty = self.home / "empty"
        self.log = self.home / "superlink.log"
        self.trained_clients = TrainedClients(self.home / CLIENTS)
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        self.empty.mkdir()
        port, control_port = free_ports(2)
        self.address = f"127.0.0.1:{port}"
        write_connection(self.home, self.address)
        with self.log.open("w") as log:
            self.process = self.popen(
                ["flower-superlink", "--insecure", "--simulation", "--isolation", "subprocess",
                 "--control-api-address", f"127.0.0.1:{control_port}",
                 "--host", "127.0.0.1", "--port", str(port)],
                log,
            )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End the SuperLink and every process of its runs; a second call does nothing."""
        stop(self._processes)
        self._processes.clear()
        self._scratch.cleanup()

    def popen(self, command: list[str], output: IO[str]) -> subprocess.Popen[bytes]:
        """Start one of Flower's commands in the empty directory; `end` ends it too."""
        counted = {TRAINED_CLIENTS: str(self.home / CLIENTS)}
        process = start(command, self.home, self.empty, output, counted)
        self._processes.append(process)
        return process

    def wait_until_ready(self) -> None:
        """Return once runs can be submitted.

        Raises:
            FlowerError: the SuperLink ended, or was not ready in time.
        """
        wait_until_ready(lambda: is_healthy(self.address), self.process, self.log)


def superlink_of(engine: str) -> contextlib.AbstractContextManager[SuperLink | None]:
    """Return the SuperLink that an engine needs, or an empty context if it needs none."""
    return SuperLink() if engine == "flower" else contextlib.nullcontext()
