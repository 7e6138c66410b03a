"""A SuperLink of one's own: started for one run, ended with it.

Flower's shared local SuperLink is a daemon that keeps the directory, the environment and the code
path of whoever started it first. This one starts in an empty directory, on free ports, with a
Flower home of its own, so that nothing but the submitted bundle can be imported.
"""

import contextlib
import subprocess
import tempfile
import urllib.request
from pathlib import Path
from typing import IO, Self

from server_app.engines.processes import free_ports, start, stop, wait_until

CONNECTION = "univarfl"


class SuperLink:
    """A context manager around a ``flower-superlink --simulation`` process.

    It starts with the context, and is ready some seconds later.
    """

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
                ["flower-superlink", "--insecure", "--simulation", "--isolation", "subprocess",
                 "--control-api-address", f"127.0.0.1:{control_port}",
                 "--host", "127.0.0.1", "--port", str(port)],
                log,
            )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
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
        wait_until(self._healthy, self.process, self.log)

    def _healthy(self) -> bool:
        with urllib.request.urlopen(f"http://{self.address}/health", timeout=1) as answer:
            return bool(answer.status == 200)


def superlink_of(engine: str) -> contextlib.AbstractContextManager[SuperLink | None]:
    """What an engine needs to be started before it: a SuperLink, or nothing."""
    return SuperLink() if engine == "flower" else contextlib.nullcontext()
