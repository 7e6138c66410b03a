"""A private SuperLink: started for one run, and then ended.

Flower's shared local SuperLink is a daemon that keeps the directory, environment and code path of
its first caller. This one starts in an empty directory, on free ports and with its own Flower
directory, so that its workers can import the submitted bundle only.
"""

import os
import secrets
import subprocess
import tempfile
from pathlib import Path
from typing import IO, Self

from task.errors import ConfigError, system_reason
from univarfl.engines.cluster import ADDRESS
from univarfl.flower.health import is_healthy
from univarfl.flower.programs import (
    free_ports,
    start,
    stop,
    wait_until_ready,
    write_connection,
)

LOOPBACK = "127.0.0.1"
# Where Ray keeps its sessions. The path of a socket may have 107 bytes; Ray needs these 80:
# /ray12345678/ray/session_2026-11-29_05-11-59_123456_1234567/sockets/plasma_store
RAY_TMPDIR, DEFAULT_ROOT, LONGEST_ROOT = "RAY_TMPDIR", "/tmp", 107 - 80  # noqa: S108


class PrivateSuperLink:
    """A context manager around a ``flower-superlink --simulation`` process, for one run.

    Flower starts Ray with the run. Ray listens on every network interface, so it gets a token; its
    files are in a directory of this user.

    Attributes:
        home: the SuperLink's Flower directory.
        empty: the empty directory in which it runs.
        log: its output.
        address: its control API, HOST:PORT, from the context's start.
        process: its process, from the context's start.
    """

    address: str
    process: "subprocess.Popen[bytes]"

    def __init__(self) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="univarfl-", ignore_cleanup_errors=True)
        self.home = Path(self._scratch.name)
        self.empty, self.log = self.home / "empty", self.home / "superlink.log"
        self._sessions: tempfile.TemporaryDirectory[str] | None = None
        self._variables: dict[str, str] = {}
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        self.empty.mkdir()
        port, control_port = free_ports(2)
        self.address = f"{LOOPBACK}:{port}"
        write_connection(self.home, self.address)
        if not os.environ.get(ADDRESS):
            self._sessions = tempfile.TemporaryDirectory(
                prefix="ray", dir=rays_root(), ignore_cleanup_errors=True
            )
            self._variables = {
                "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32),
                RAY_TMPDIR: self._sessions.name,
            }  # fmt: skip
        with self.log.open("w") as log:
            self.process = self.popen(
                ["flower-superlink", "--insecure", "--simulation", "--isolation", "subprocess",
                 "--control-api-address", f"{LOOPBACK}:{control_port}",
                 "--host", LOOPBACK, "--port", str(port)],
                log,
            )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def popen(self, command: list[str], output: IO[str]) -> "subprocess.Popen[bytes]":
        """Start one of Flower's commands in the empty directory; `end` ends it too."""
        process = start(command, self.home, self.empty, output, self._variables)
        self._processes.append(process)
        return process

    def end(self, at_once: bool = False) -> None:
        """End all programs and every process of their runs; a second call does nothing.

        Args:
            at_once: whether to kill them, because the run has written its results.
        """
        stop(self._processes, at_once)
        self._processes.clear()
        if self._sessions:
            self._sessions.cleanup()
        self._scratch.cleanup()

    def wait_until_ready(self) -> None:
        """Return once runs can be submitted; Ray may need some seconds more, as the run does.

        Raises:
            FlowerError: the SuperLink ended, or was not ready in time.
        """
        wait_until_ready(lambda: is_healthy(self.address), self.process, self.log)


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
