"""The resident worker of a site, which answers the SuperNode's messages with installed code."""

import secrets
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Self

from task.error_messages import describe_error
from task.machine.files import write_secret
from univarfl.deploy.places import SitePlace
from univarfl.engines.restarts import STEADY_SECONDS, Restarts
from univarfl.flower.programs import FlowerError, start, stop

MOST_RESTARTS = 5
PAUSE_SECONDS = 1.0
SECRET_BYTES = 32


class SiteWorker:
    """Keeps the worker running beside a SuperNode. A context manager.

    Args:
        place: the site's directory.
        supernode: the SuperNode; it is ended if the worker ends too often.
        port: the port of its local API.

    Attributes:
        failed: whether the worker has ended too often, or its output cannot be printed.
    """

    def __init__(self, place: SitePlace, supernode: "subprocess.Popen[bytes]", port: int) -> None:
        self.failed = False
        self._place, self._supernode = place, supernode
        self._command = [
            sys.executable, "-P", "-m", "univarfl.site_worker",
            "--supernode", f"127.0.0.1:{port}", "--secret-file", str(place.secret),
            "--node-config", str(place.node_settings),
        ]  # fmt: skip
        self._lock, self._stopping = threading.Lock(), False
        self._process = self._start()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._stopping = True
        stop([self._process])
        self._thread.join()

    def _start(self) -> "subprocess.Popen[bytes]":
        directory = self._place.make_flower_directory()
        return start(self._command, self._place.flower, directory, subprocess.PIPE)

    def _run(self) -> None:
        """Keep the worker running; end the SuperNode if that is impossible."""
        try:
            self._keep()
        except BaseException:  # without this thread, the worker would block on its output
            self.failed = True
            self._supernode.terminate()
            raise

    def _keep(self) -> None:
        """Print the worker's output, and start it again when it ends."""
        restarts, started = Restarts(MOST_RESTARTS), time.monotonic()
        while True:
            assert self._process.stdout is not None
            for line in self._process.stdout:
                print(line.decode(errors="replace").rstrip(), flush=True)
            code = self._process.wait()
            time.sleep(PAUSE_SECONDS)
            with self._lock:
                if self._stopping:
                    return
                steady = time.monotonic() - started > STEADY_SECONDS
                if not restarts.allow(progress=steady):
                    self.failed = True
                    self._supernode.terminate()
                    return
                print(f"the site's worker ended with code {code} and is started again", flush=True)
                started = time.monotonic()
                try:
                    self._process = self._start()
                except (OSError, FlowerError) as error:  # the next pass tries again
                    print(f"it could not be started: {describe_error(error)}", flush=True)


def renew_secret(path: Path) -> None:
    """Write a new secret, which only this user can read, for the SuperNode and the worker."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    write_secret(path, secrets.token_bytes(SECRET_BYTES))
