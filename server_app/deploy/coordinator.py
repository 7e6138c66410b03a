"""The coordinator's SuperLink, with TLS, and open to the sites whose keys it was given."""

import errno
import json
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_ssh_public_key,
)

from server_app.deploy.places import CONNECTION, CoordinatorPlace, address_of
from server_app.engines.processes import (
    FlowerError,
    environment,
    last_line,
    program,
    start,
    stop,
    wait_until,
)  # fmt: skip
from task.errors import ConfigError, system_reason

LOOK_SECONDS = 2.0
ALL = ("0.0.0.0", "::")  # noqa: S104  (told apart from one address, not bound to here)


def superlink_command(place: CoordinatorPlace, listen: str, port: int) -> list[str]:
    """How Flower's SuperLink is started."""
    return [
        "flower-superlink",
        "--ssl-ca-certfile", str(place.authority),
        "--ssl-certfile", str(place.certificate),
        "--ssl-keyfile", str(place.key),
        "--enable-supernode-auth",
        "--disable-runtime-dependency-installation",
        "--database", str(place.database),
        "--host", listen,
        "--port", str(port),
    ]  # fmt: skip


def own_address(listen: str, port: int) -> str:
    """Where the coordinator's machine itself reaches its SuperLink."""
    return address_of("127.0.0.1" if listen in ALL else listen, port)


def write_connection(place: CoordinatorPlace, address: str) -> None:
    """Tell Flower's commands the way to the SuperLink."""
    place.flower.mkdir(parents=True, exist_ok=True)
    (place.flower / "config.toml").write_text(
        f'[superlink]\ndefault = "{CONNECTION}"\n\n[superlink.{CONNECTION}]\n'
        f'address = "{address}"\nroot-certificates = {json.dumps(str(place.authority))}\n'
    )


def healthy(address: str, authority: Path) -> bool:
    """Whether a SuperLink answers there.

    Raises:
        OSError: it cannot be reached, or is not the one that the authority vouches for.
    """
    context = ssl.create_default_context(cafile=str(authority))
    with urllib.request.urlopen(f"https://{address}/health", timeout=5, context=context) as answer:
        return bool(answer.status == 200)


class Coordinator:
    """A context manager around the SuperLink's process.

    Args:
        place: keys, database and records.
        listen: the address to listen at.
        port: its port.
    """

    def __init__(self, place: CoordinatorPlace, listen: str, port: int) -> None:
        self.place = place
        self._listen, self._port = listen, port
        self.address = own_address(listen, port)
        self._command = superlink_command(place, listen, port)
        self._log = place.directory / "superlink.log"
        self._known: dict[Path, bytes] = {}

    def __enter__(self) -> "Coordinator":
        """Start it, and return once it is ready.

        Raises:
            ConfigError: somebody listens there already.
            FlowerError: it ended, or took too long.
        """
        refuse_taken_port(self._listen, self._port)
        write_connection(self.place, self.address)
        empty = self.place.flower / "empty"  # nothing but a submitted bundle can be imported
        empty.mkdir(exist_ok=True)
        with self._log.open("a") as log:
            self.process = start(self._command, self.place.flower, empty, log)
        try:
            wait_until(self._healthy, self.process, self._log)
        except BaseException:
            stop([self.process])
            raise
        return self

    def __exit__(self, *_: object) -> None:
        stop([self.process])

    def _healthy(self) -> bool:
        try:
            return healthy(self.address, self.place.authority)
        except urllib.error.URLError as error:
            if isinstance(error.reason, ssl.SSLCertVerificationError):
                raise FlowerError(f"its own certificate is refused: {error.reason}") from None
            raise

    def check(self) -> None:
        """Notice that it has ended.

        Raises:
            FlowerError: it has.
        """
        if self.process.poll() is not None:
            raise FlowerError(f"flower-superlink ended: {last_line(self._log)} ({self._log})")

    def register_sites(self) -> list[str]:
        """Let the sites join whose public keys are new in ``sites/``; a line about each."""
        told = []
        for path in sorted(set(self.place.sites.glob("*.pub")) - self._known.keys()):
            key = public_key(path)
            same = [other.name for other, known in self._known.items() if key and known == key]
            self._known[path] = key
            if not key:
                told.append(f"{path.name} is no public key; ask for it again")
            elif same:
                told.append(f"{path.name} is the same key as {same[0]}; each site has its own")
            else:
                told.append(register(self.place, path))
        return told

    def serve(self) -> None:
        """Register sites as their keys appear, until the process is told to end.

        Raises:
            FlowerError: the SuperLink ended by itself.
        """
        while True:
            self.check()
            for line in self.register_sites():
                print(line, flush=True)
            time.sleep(LOOK_SECONDS)


def refuse_taken_port(listen: str, port: int) -> None:
    """See whether the SuperLink can listen there.

    Raises:
        ConfigError: it cannot.
    """
    family = socket.AF_INET6 if ":" in listen else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((listen, port))
        except OSError as error:
            allowed = (
                "is in use; is a coordinator running already? --port chooses another"
                if error.errno == errno.EADDRINUSE
                else f"cannot be listened at on {listen}: {system_reason(error)}"
            )
            raise ConfigError("--port", port, allowed) from None


def public_key(path: Path) -> bytes:
    """The key that a file holds, whatever comment is beside it; empty if it holds none."""
    try:
        key = load_ssh_public_key(path.read_bytes())
    except (OSError, ValueError, UnsupportedAlgorithm):
        return b""
    return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)


def register(place: CoordinatorPlace, public_key: Path) -> str:
    """Let a site join; what came of it."""
    name = public_key.stem
    ended = flwr(place, ["supernode", "register", str(public_key), "--name", name])
    if ended.returncode == 0:
        return f"site {name} may join"
    said = ended.stdout + ended.stderr
    if "already" in said.lower() or "in use" in said.lower():
        return f"site {name} may join, as before"
    return f"site {name} may not join: {' '.join(said.split())}"


def flwr(place: CoordinatorPlace, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """One of Flower's commands, to our SuperLink."""
    return subprocess.run(  # noqa: S603  (our own words, no shell)
        [program("flwr"), *words], env=environment(place.flower), cwd=place.flower,
        capture_output=True, text=True, check=False, start_new_session=True,
    )  # fmt: skip
