"""The files in the directory of a coordinator or of a site, and the form of their addresses."""

import contextlib
import ipaddress
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from task.errors import ConfigError, system_reason
from task.machine.files import make_private

DEFAULT_PORT = 8000
ANY_IPV4, ANY_IPV6 = "0.0.0.0", "::"  # noqa: S104  (sites come from other machines)
PORTS = range(1, 65536)
PORT = re.compile(r"[0-9]{0,5}")  # of an address; none is the usual one
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # of a host

Socket = TypeVar("Socket", bound=socket.socket)


class CoordinatorPlace:
    """A coordinator's directory.

    Attributes:
        authority: the certificate that sites receive, to recognise the coordinator.
        authority_key: signs certificates; secret.
        certificate: the SuperLink's certificate.
        key: the SuperLink's key; secret.
        sites: the public keys of the sites that may join, NAME.pub.
        revoked: the keys that may never join again, and accepted rotations.
        database: the SuperLink's database, kept between starts.
        superlink_log: what the SuperLink prints.
        gate_log: what the gate refused, and to whom.
        gate_memory: which machine uses which key, and until when timestamps were used.
        gate_output: what the gate prints, if it cannot start.
        flower: Flower's own files, with the connection to the SuperLink.
        connection: the file that holds that connection.
        lock: is locked while the coordinator's command runs.
        gate_lock: is locked while the gate runs.
        runs: the records.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        self.authority = self.directory / "ca.crt"
        self.authority_key = self.directory / "ca.key"
        self.certificate = self.directory / "server.crt"
        self.key = self.directory / "server.key"
        self.sites = self.directory / "sites"
        self.revoked = self.sites / "revoked"
        self.database = self.directory / "state.db"
        self.superlink_log = self.directory / "superlink.log"
        self.gate_log = self.directory / "gate.log"
        self.gate_memory = self.directory / "gate.json"
        self.gate_output = self.directory / "gate.out"
        self.flower = self.directory / "flower"
        self.connection = self.flower / "config.toml"
        self.lock = self.flower / "coordinator.lock"
        self.gate_lock = self.flower / "gate.lock"
        self.runs = self.directory / "runs"

    def require_keys(self) -> None:
        """Refuse a directory without the coordinator's keys.

        Raises:
            ConfigError: a key or certificate is missing.
        """
        with refuse_unusable(self.directory):
            for path in (self.authority, self.certificate, self.key):
                if not path.is_file():
                    allowed = (
                        f"has no file {path.name}; make it with: "
                        f"univarfl deploy keys {self.directory} --host HOST"
                    )
                    raise ConfigError("coordinator", self.directory, allowed)

    def make_flower_directory(self) -> Path:
        """Make Flower's directory; return an empty directory in it for its programs to start in."""
        return make_empty(self.flower)


class SitePlace:
    """A site's directory.

    Attributes:
        authority: the coordinator's certificate, by which a site recognises the coordinator.
        settings: the site's name and limits, a `task.site.Site`.
        flower: Flower's own files.
        node_settings: the settings as the SuperNode gets them, with the path of the key.
        joined: the file with the id of its node when it last joined.
        lock: is locked while the site's command runs.
        cache: decoded images; only this user can read it.
        secret: what the SuperNode and the site's worker recognise each other by; made at
            each start.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        self.authority = self.directory / "ca.crt"
        self.settings = self.directory / "site.toml"
        self.flower = self.directory / "flower"
        self.node_settings = self.flower / "node.toml"
        self.joined = self.flower / "joined"
        self.lock = self.flower / "site.lock"
        self.cache = self.directory / "cache"
        self.secret = self.flower / "worker.secret"

    def node_id(self) -> int | None:
        """Return the id of the site's node when it last joined; None if that is not known."""
        try:
            return int(self.joined.read_text())
        except (OSError, ValueError):
            return None

    def remember_node(self, node_id: int) -> None:
        """Keep the id of the site's node."""
        self.joined.parent.mkdir(parents=True, exist_ok=True)
        self.joined.write_text(str(node_id))

    def key(self, name: str) -> Path:
        """Return the path of the site's key; secret."""
        return self.directory / f"{name}.key"

    def public_key(self, name: str) -> Path:
        """Return the path of the key that the coordinator receives."""
        return self.directory / f"{name}.pub"

    def next_key(self, name: str) -> Path:
        """Return the path of the key that replaces the site's key, once accepted; secret."""
        return self.directory / f"{name}.next.key"

    def rotation(self, name: str) -> Path:
        """Return the path of the text that makes the next key the successor of the site's key."""
        return self.directory / f"{name}.rotation"

    def make_flower_directory(self) -> Path:
        """Make Flower's directory; return an empty directory in it for its programs to start in."""
        return make_empty(self.flower)


def make_empty(flower: Path) -> Path:
    """Make an empty directory, so that Flower's programs can import only a submitted bundle."""
    empty = flower / "empty"
    make_private(flower)
    empty.mkdir(exist_ok=True)
    return empty


@contextlib.contextmanager
def refuse_unusable(directory: Path) -> Iterator[None]:
    """Raise a `ConfigError` in place of an `OSError`, naming the file or else the directory."""
    try:
        yield
    except FileExistsError as error:
        raise ConfigError("file", error.filename, "must be a directory, and is a file") from None
    except OSError as error:
        path = error.filename or directory
        raise ConfigError("file", path, f"cannot be used: {system_reason(error)}") from None


def host_and_port(address: str) -> tuple[str, int]:
    """Split a coordinator's address, HOST or HOST:PORT.

    Raises:
        ConfigError: it has another form, or the port is not between 1 and 65535.
    """
    bare = ":" not in address or address.endswith("]")  # an IPv6 address stands in brackets
    host, _, port = (address, "", "") if bare else address.rpartition(":")
    host = host.strip("[]")
    if not is_host(host) or not PORT.fullmatch(port):
        raise ConfigError(
            "--coordinator", address, "must be HOST:PORT, such as fl.example.org:8000"
        )
    number = int(port or DEFAULT_PORT)
    require_port("--coordinator", number)
    return host, number


def require_port(option: str, port: int) -> None:
    """Refuse a port that TCP does not have.

    Raises:
        ConfigError: it is not between 1 and 65535.
    """
    if port not in PORTS:
        raise ConfigError(option, port, f"must be a port between {PORTS[0]} and {PORTS[-1]}")


def address_of(host: str, port: int) -> str:
    """Join a host and a port to HOST:PORT, the form that `host_and_port` splits."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def every_address() -> str:
    """Return the address for listening on all addresses: with IPv6 where the system has it."""
    return ANY_IPV6 if socket.has_dualstack_ipv6() else ANY_IPV4


def listening_socket(kind: type[Socket], host: str) -> Socket:
    """Return a socket that can listen at an address; for all of IPv6, at all of IPv4, too."""
    made = kind(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if host == ANY_IPV6:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    return made


def is_host(host: str) -> bool:
    """Whether a text has the form of a host's name or address."""
    labels = host.removesuffix(".").split(".")
    return is_ip(host) or (
        NAME.fullmatch(host) is not None and all(1 <= len(label) <= 63 for label in labels)
    )


def is_ip(host: str) -> bool:
    """Whether a host is an IP address and not a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
