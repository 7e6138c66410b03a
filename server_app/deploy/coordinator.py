"""The coordinator's programs: they use TLS and admit the sites whose keys they were given."""

import errno
import socket
import time
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_ssh_public_key,
)

from server_app.deploy.places import CoordinatorPlace, is_host, refuse_unusable
from server_app.deploy.programs import LOOPBACK, Gate, Program, SuperLink
from server_app.flower.output import KEY_IN_USE
from server_app.flower.programs import run_to_end, write_connection
from task.errors import ConfigError, system_reason

KEYS_POLL_SECONDS = 2.0
ONLY_OWNER = 0o700


class Coordinator:
    """A context manager around the SuperLink and the gate.

    Args:
        place: keys, database and records.
        listen: the address on which the gate listens.
        port: the port on which the gate listens.
        internal_port: the SuperLink's port on 127.0.0.1.
    """

    def __init__(self, place: CoordinatorPlace, listen: str, port: int, internal_port: int) -> None:
        self.place = place
        self._ports = {port: listen, internal_port: LOOPBACK}
        self.superlink = SuperLink(place, internal_port)
        self.gate = Gate(place, listen, port, internal_port)
        self.programs: tuple[Program, ...] = (self.superlink, self.gate)
        self._seen: dict[Path, bytes] = {}

    def __enter__(self) -> "Coordinator":
        """Start both programs, and return once they are ready.

        Raises:
            ConfigError: a port is in use, or a file cannot be written.
            FlowerError: a program ended or took too long.
        """
        for port, listen in self._ports.items():
            refuse_taken_port(listen, port)
        try:
            with refuse_unusable(self.place.directory):
                self.place.directory.chmod(ONLY_OWNER)
                self.place.make_flower_directory()
                write_connection(self.place.flower, self.superlink.address, self.place.authority)
                for program in self.programs:
                    program.start()
            for program in self.programs:
                program.wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for program in reversed(self.programs):
            program.stop()

    def refuse_ended_program(self) -> None:
        """Raise an error if one of the programs has ended.

        Raises:
            FlowerError: it has ended.
        """
        for program in self.programs:
            if program.has_ended:
                raise program.ended()

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
            FlowerError: one of the programs ended.
        """
        while True:
            self.refuse_ended_program()
            for line in self.register_sites():
                print(line, flush=True)
            time.sleep(KEYS_POLL_SECONDS)


def refuse_taken_port(listen: str, port: int) -> None:
    """Raise an error if a program cannot listen there.

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
