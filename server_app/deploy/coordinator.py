"""The coordinator's SuperLink: it uses TLS and admits the sites whose keys it was given."""

import errno
import socket
import ssl
import time
import urllib.error
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_ssh_public_key,
)

from server_app.deploy.places import CoordinatorPlace, address_of, is_host, refuse_unusable
from server_app.flower.output import KEY_IN_USE
from server_app.flower.programs import (
    FlowerError,
    is_healthy,
    last_line,
    run_to_end,
    start,
    stop,
    wait_until_ready,
    write_connection,
)
from task.errors import ConfigError, system_reason

KEYS_POLL_SECONDS = 2.0


def superlink_command(place: CoordinatorPlace, listen: str, port: int) -> list[str]:
    """Return the command that starts Flower's SuperLink."""
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


def local_address(listen: str, port: int) -> str:
    """Return the address at which the coordinator's own machine reaches its SuperLink."""
    every_address = listen in ("0.0.0.0", "::")  # noqa: S104  (compared, not listened on)
    return address_of("127.0.0.1" if every_address else listen, port)


class Coordinator:
    """A context manager around the SuperLink's process.

    Args:
        place: keys, database and records.
        listen: the address to listen on.
        port: the port to listen on.
    """

    def __init__(self, place: CoordinatorPlace, listen: str, port: int) -> None:
        self.place = place
        self._listen, self._port = listen, port
        self.address = local_address(listen, port)
        self._command = superlink_command(place, listen, port)
        self._log = place.directory / "superlink.log"
        self._seen: dict[Path, bytes] = {}

    def __enter__(self) -> "Coordinator":
        """Start the SuperLink, and return once it is ready.

        Raises:
            ConfigError: the port is in use, or a file cannot be written.
            FlowerError: the SuperLink ended or took too long.
        """
        refuse_taken_port(self._listen, self._port)
        with refuse_unusable(self.place.directory):
            empty = self.place.make_flower_directory()
            write_connection(self.place.flower, self.address, self.place.authority)
            with self._log.open("a") as log:
                self.process = start(self._command, self.place.flower, empty, log)
        try:
            wait_until_ready(self._is_ready, self.process, self._log)
        except BaseException:
            stop([self.process])
            raise
        return self

    def __exit__(self, *_: object) -> None:
        stop([self.process])

    def _is_ready(self) -> bool:
        try:
            return is_healthy(self.address, self.place.authority)
        except urllib.error.URLError as error:
            if isinstance(error.reason, ssl.SSLCertVerificationError):
                raise FlowerError(f"its own certificate is refused: {error.reason}") from None
            raise

    def refuse_ended_superlink(self) -> None:
        """Raise an error if the SuperLink has ended.

        Raises:
            FlowerError: it has ended.
        """
        if self.process.poll() is not None:
            raise FlowerError(f"flower-superlink ended: {last_line(self._log)} ({self._log})")

    def register_sites(self) -> list[str]:
        """Register the public keys that are new in ``sites/``; return one line about each."""
        lines = []
        for path in sorted(set(self.place.sites.glob("*.pub")) - self._seen.keys()):
            key = public_key(path)
            same = [other.name for other, seen in self._seen.items() if key and seen == key]
            self._seen[path] = key
            if not key:
                lines.append(f"{path.name} is not a public key; ask the site for it again")
            elif same:
                lines.append(
                    f"{path.name} is the same key as {same[0]}; each site needs its own key"
                )
            else:
                lines.append(register(self.place, path))
        return lines

    def serve(self) -> None:
        """Register sites as their keys appear, until this process is asked to end.

        Raises:
            FlowerError: the SuperLink ended.
        """
        while True:
            self.refuse_ended_superlink()
            for line in self.register_sites():
                print(line, flush=True)
            time.sleep(KEYS_POLL_SECONDS)


def refuse_taken_port(listen: str, port: int) -> None:
    """Raise an error if the SuperLink cannot listen there.

    Raises:
        ConfigError: the address is not this machine's, or the port is in use or not allowed.
    """
    if not is_host(listen):
        raise ConfigError("--listen", listen, "must be an address of this machine, without a port")
    family = socket.AF_INET6 if ":" in listen else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((listen, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                allowed = "is in use; if no coordinator runs here, choose another with --port"
                raise ConfigError("--port", port, allowed) from None
            allowed = f"this machine cannot listen on port {port} there: {system_reason(error)}"
            raise ConfigError("--listen", listen, allowed) from None


def public_key(path: Path) -> bytes:
    """Return the public key in a file without its comment; empty if the file has no key."""
    try:
        key = load_ssh_public_key(path.read_bytes())
    except (OSError, ValueError, UnsupportedAlgorithm):
        return b""
    return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)


def register(place: CoordinatorPlace, public_key: Path) -> str:
    """Register a site's public key with the SuperLink; return a line with the result."""
    name = public_key.stem
    words = ["flwr", "supernode", "register", str(public_key), "--name", name]
    code, output = run_to_end(words, place.flower)
    if code == 0:
        return f"site {name} may join"
    if KEY_IN_USE in output:
        return f"site {name} may join; its key was registered before"
    return f"site {name} may not join: {' '.join(output.split())}"
