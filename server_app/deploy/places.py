"""What lies where in the directory of a coordinator or of a site."""

import ipaddress
from pathlib import Path

from task.errors import ConfigError

CONNECTION = "coordinator"  # Flower's name for the way to our SuperLink
DEFAULT_PORT = 8000


class CoordinatorPlace:
    """A coordinator's directory.

    Attributes:
        authority: the certificate that sites are given, to know the coordinator by.
        authority_key: signs certificates; stays here.
        certificate: the SuperLink's.
        key: the SuperLink's; stays here.
        sites: the public keys of the sites that may join, NAME.pub.
        database: what the SuperLink keeps, so that it can be restarted.
        flower: Flower's own files, its connection to the SuperLink among them.
        runs: the records.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        self.authority = self.directory / "ca.crt"
        self.authority_key = self.directory / "ca.key"
        self.certificate = self.directory / "server.crt"
        self.key = self.directory / "server.key"
        self.sites = self.directory / "sites"
        self.database = self.directory / "state.db"
        self.flower = self.directory / "flower"
        self.runs = self.directory / "runs"

    def check(self) -> None:
        """Refuse a directory that holds no keys.

        Raises:
            ConfigError: a file is missing.
        """
        for path in (self.authority, self.certificate, self.key):
            if not path.exists():
                allowed = f"has no {path.name}; make it: univarfl deploy keys DIR --host HOST"
                raise ConfigError("coordinator", self.directory, allowed)


class SitePlace:
    """A site's directory.

    Attributes:
        authority: the coordinator's certificate, by which it is known.
        settings: what this site says and allows, `task.site.Site`.
        flower: Flower's own files.
        joined: is there once the coordinator has taken this site in.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        self.authority = self.directory / "ca.crt"
        self.settings = self.directory / "site.toml"
        self.flower = self.directory / "flower"
        self.joined = self.flower / "joined"

    def key(self, name: str) -> Path:
        """The site's key; stays here."""
        return self.directory / f"{name}.key"

    def public_key(self, name: str) -> Path:
        """What the coordinator is given."""
        return self.directory / f"{name}.pub"


def host_and_port(address: str) -> tuple[str, int]:
    """A coordinator's address, taken apart.

    Raises:
        ConfigError: it is not HOST or HOST:PORT.
    """
    host, _, port = address.rpartition(":") if ":" in address else (address, "", "")
    host = host.strip("[]")
    if not host or "/" in address or not (port.isdigit() or not port):
        raise ConfigError("--coordinator", address, "must be HOST:PORT, as fl.example.org:8000")
    return host, int(port or DEFAULT_PORT)


def address_of(host: str, port: int) -> str:
    """HOST:PORT, as `host_and_port` takes it apart."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_ip(host: str) -> bool:
    """Whether a host is an address and not a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
