"""A SuperLink of one's own: started for one run, ended with it.

Flower's shared local SuperLink is a daemon that keeps the directory, the environment and the code
path of whoever started it first. This one starts in an empty directory, on free ports, with a
Flower home of its own, so that nothing but the submitted bundle can be imported.
"""

import contextlib
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, ClassVar, Self

from server_app.engines.processes import FlowerError, free_ports, last_line, start, stop

START_SECONDS = 60.0
CONNECTION = "univarfl"


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
        process = start(command, self.home, self.empty, output)
        self._processes.append(process)
        return process

    def wait_until_ready(self) -> None:
        """Return once runs can be submitted.

        Raises:
            FlowerError: it ended, or took too long.
        """
        url = f"http://{self.address}/health"
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise FlowerError(f"flower-superlink ended at once: {last_line(self.log)}")
            try:
                with urllib.request.urlopen(url, timeout=1):
                    return
            except (urllib.error.URLError, TimeoutError, ConnectionError):
                time.sleep(0.1)
        raise FlowerError(f"flower-superlink was not ready within {START_SECONDS:g} s")


def superlink_of(engine: str) -> contextlib.AbstractContextManager[SuperLink | None]:
    """What an engine needs to be started before it: a SuperLink, or nothing."""
    return SuperLink() if engine == "flower" else contextlib.nullcontext()
