"""The coordinator's two programs, the SuperLink and the gate, each under a supervisor."""

import ssl
import subprocess
import time
import urllib.error
from pathlib import Path

from univarfl.deploy.places import ANY_IPV4, ANY_IPV6, CoordinatorPlace, address_of
from univarfl.engines.restarts import STEADY_SECONDS, Restarts
from univarfl.flower.health import is_healthy
from univarfl.flower.programs import (
    FlowerError,
    last_line,
    start,
    stop,
    wait_until_ready,
)

LOOPBACK = "127.0.0.1"
MOST_RESTARTS = 10


class Program:
    """A program that runs until it is stopped and that answers ``/health`` once it is ready.

    Args:
        place: the coordinator's directory.
        name: the program's name in messages.
        command: its command line.
        address: HOST:PORT, at which this machine reaches it.
        output: the file that receives what it prints.
    """

    def __init__(
        self, place: CoordinatorPlace, name: str, command: list[str], address: str, output: Path
    ) -> None:
        self.name, self.command, self.address, self.output = name, command, address, output
        self._place = place
        self._process: subprocess.Popen[bytes] | None = None
        self._started = 0.0
        self._start_at: float | None = None  # when an ended program is started again
        self._restarts = Restarts(MOST_RESTARTS)

    def start(self) -> None:
        """Start the program, or start it again.

        Raises:
            FlowerError: the program is not installed.
            OSError: the output cannot be written.
        """
        empty = self._place.make_flower_directory()
        with self.output.open("a") as output:
            self._process = start(self.command, self._place.flower, empty, output)
        self._started, self._start_at = time.monotonic(), None

    def wait_until_ready(self) -> None:
        """Return once the program answers.

        Raises:
            FlowerError: the program ended or took too long.
        """
        assert self._process is not None
        wait_until_ready(self._is_ready, self._process, self.output, self.name)

    def keep_running(self) -> None:
        """Start the program again if it has ended, and print a line about it.

        It does not wait until the program is ready, which may depend on another program that has
        ended, too. The pause before a restart grows from one to the next.

        Raises:
            FlowerError: it ends too often.
        """
        if not self.has_ended:
            return
        if self._start_at is None:
            steady = time.monotonic() - self._started > STEADY_SECONDS
            if not self._restarts.allow(progress=steady):
                raise self.ended()
            self._start_at = time.monotonic() + self._restarts.pause
            when = f" in {self._restarts.pause:.0f} s" if self._restarts.pause else ""
            print(f"{self.ended()}; it is started again{when}", flush=True)
        if time.monotonic() >= self._start_at:
            self.start()

    def stop(self) -> None:
        """End the program and every process that it started; without effect if it has ended."""
        if self._process is not None:
            stop([self._process])

    @property
    def has_ended(self) -> bool:
        """Whether the program was started and has ended."""
        return self._process is not None and self._process.poll() is not None

    def ended(self) -> FlowerError:
        """Return the error that says how the program ended."""
        return FlowerError(f"{self.name} ended: {last_line(self.output)} ({self.output})")

    def _is_ready(self) -> bool:
        try:
            return is_healthy(self.address, self._place.authority, own=True)
        except urllib.error.URLError as error:
            if isinstance(error.reason, ssl.SSLCertVerificationError):
                raise FlowerError(f"its own certificate is refused: {error.reason}") from None
            raise


class SuperLinkProgram(Program):
    """Flower's SuperLink, which only this machine reaches.

    Args:
        place: keys and database.
        port: its port on 127.0.0.1.
    """

    def __init__(self, place: CoordinatorPlace, port: int) -> None:
        command = [
            "flower-superlink",
            "--ssl-ca-certfile", str(place.authority),
            "--ssl-certfile", str(place.certificate),
            "--ssl-keyfile", str(place.key),
            "--enable-supernode-auth",
            "--disable-runtime-dependency-installation",
            "--database", str(place.database),
            "--host", LOOPBACK,
            "--port", str(port),
        ]  # fmt: skip
        address = address_of(LOOPBACK, port)
        super().__init__(place, "flower-superlink", command, address, place.superlink_log)


class GateProgram(Program):
    """The gate, through which the sites reach the SuperLink.

    Args:
        place: certificate, the sites' keys and the log.
        listen: the address to listen on.
        port: the port to listen on.
        internal_port: the SuperLink's port on 127.0.0.1.
    """

    def __init__(self, place: CoordinatorPlace, listen: str, port: int, internal_port: int) -> None:
        command = [
            "univarfl", "deploy", "gate", str(place.directory),
            "--listen", listen, "--port", str(port), "--internal-port", str(internal_port),
        ]  # fmt: skip
        address = local_address(listen, port)
        super().__init__(place, "the gate", command, address, place.gate_output)


def local_address(listen: str, port: int) -> str:
    """Return the address at which this machine reaches a program that listens on `listen`."""
    return address_of(LOOPBACK if listen in (ANY_IPV4, ANY_IPV6) else listen, port)
