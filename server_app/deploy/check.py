"""What a site looks at before it joins: a line for each finding, with the cure if one is needed."""

import re
import socket
import ssl
import tomllib
import urllib.error
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path

from cryptography import x509

from server_app.deploy.coordinator import healthy
from server_app.deploy.places import SitePlace
from task.errors import ConfigError, DataError, DeviceError, SiteError, system_reason
from task.site import Site

SOON = timedelta(days=30)
OTHER_NAMES = (62, 64)  # OpenSSL's codes for another host name, and another address
MEANINGS: dict[type[OSError], str] = {
    ssl.SSLError: "it speaks no TLS; is it another program, or a SuperLink started without?",
    socket.gaierror: "there is no host of that name",
    TimeoutError: "no answer; is a firewall between?",
}


class Finding(Exception):  # noqa: N818  (it ends one check, and not the program)
    """Something that keeps the site from joining; the text says what, and what to do."""


@dataclass(frozen=True)
class Inspection:
    """The checks of one site.

    Attributes:
        place: the site's directory.
        address: the coordinator's, HOST:PORT.
        expect: the first digits of the fingerprint that the coordinator's code has; empty if not
            told.
        words: the experiment's overrides; none if not told.
    """

    place: SitePlace
    address: str
    expect: str
    words: Sequence[str]

    def lines(self) -> Iterator[tuple[bool, str]]:
        """Each check's outcome, as it is made: whether the site may join, and what was found."""
        checks: dict[str, Callable[[], str]] = {
            "settings": self._settings,
            "key": self._key,
            "coordinator": self._coordinator,
            "code": self._code,
            "memory": self._memory,
            "device": self._device,
            "data": self._data,
        }
        for name, check in checks.items():
            try:
                found = check()
            except (Finding, ConfigError, DataError, DeviceError, SiteError) as reason:
                yield False, f"{name}: {reason}"
                if name == "settings":
                    return
            else:
                yield True, f"{name}: {found}"

    @cached_property
    def site(self) -> Site:
        """The site, as its settings say.

        Raises:
            ConfigError, SiteError: they cannot be read, or are not a site's.
        """
        return read_site(self.place)

    def _settings(self) -> str:
        site = self.site
        return f"site {site.name}, data in {site.directory}"

    def _key(self) -> str:
        path = self.place.key(self.site.name)
        if not path.exists():
            raise Finding(f"{path} is not there; make it: univarfl deploy keys DIR --site NAME")
        if path.stat().st_mode & 0o077:
            raise Finding(f"{path} can be read by others; chmod 600 it")
        public = self.place.public_key(self.site.name).name
        return f"{path}; whether the coordinator has {public} shows when the site joins"

    def _coordinator(self) -> str:
        authority = self.place.authority
        if not authority.exists():
            raise Finding(f"{authority} is not there; ask the coordinator for their ca.crt")
        try:
            certificate = x509.load_pem_x509_certificate(authority.read_bytes())
        except ValueError:
            raise Finding(f"{authority} is no certificate; ask the coordinator again") from None
        left = certificate.not_valid_after_utc - datetime.now(tz=UTC)
        if left < timedelta(0):
            raise Finding(f"{authority} has expired; the coordinator must make new keys")
        reach(self.address, authority)
        soon = f"; it expires in {left.days} days" if left < SOON else ""
        return f"{self.address} is the one that {authority.name} vouches for{soon}"

    def _code(self) -> str:
        from task.fingerprint import fingerprint  # noqa: PLC0415

        if not re.fullmatch("[0-9a-f]*", self.expect):
            raise Finding(f"--expect {self.expect} is no hash; the coordinator prints theirs")
        if not fingerprint().startswith(self.expect):
            raise Finding(
                f"this is {fingerprint()[:12]}, and the coordinator runs {self.expect[:12]}; "
                "install the same version"
            )
        compared = "as the coordinator's" if self.expect else "not compared: add --expect HASH"
        return f"{fingerprint()[:12]}, {compared}"

    def _memory(self) -> str:
        place = self.site.memory_place
        try:
            place.mkdir(parents=True, exist_ok=True)
            probe = place / ".probe"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise Finding(f"{place} must be writable: {system_reason(error)}") from None
        return str(place)

    def _device(self) -> str:
        import torch  # noqa: PLC0415

        from task.device import choose_device  # noqa: PLC0415

        device = choose_device(self.site.device)
        return f"{device.type} (CUDA is {'seen' if torch.cuda.is_available() else 'not seen'})"

    def _data(self) -> str:
        directory = Path(self.site.directory)
        if not directory.is_dir():
            raise Finding(f"{directory} is no directory; set data-dir in {self.place.settings}")
        if not self.words:
            return f"{directory} is there; not read: add the experiment's words to read it"
        from server_app.composition import compose_experiment  # noqa: PLC0415
        from task.data.federated import federate_site  # noqa: PLC0415

        experiment = compose_experiment(self.words)
        sites = experiment.divider().sites
        if self.site.name not in sites:
            known = f"lists {', '.join(sites)}" if sites else "has no sites"
            raise Finding(
                f"the experiment {known}; add partition=sites partition.names=[...] with "
                f"{self.site.name} among them"
            )
        data = federate_site(experiment.local(), self.site)
        ((_, split),) = data.clients.items()
        notes = "".join(f"; {note}" for note in data.notes)
        counts = f"{len(split.train)} images to train on and {len(split.validation)} to validate on"
        folders = ", ".join(sorted(name for name in data.dataset.domains if name))
        where = f", in the folders {folders}" if folders else ""
        return f"{counts}, of the classes {', '.join(data.dataset.classes)}{where}{notes}"


def read_site(place: SitePlace) -> Site:
    """The site that a directory's settings describe.

    Raises:
        ConfigError: they are not there, or no TOML.
        SiteError: they are not a site's.
    """
    try:
        return Site.of(tomllib.loads(place.settings.read_text()))
    except OSError as error:
        allowed = f"{system_reason(error)}; make it: univarfl deploy keys DIR --site NAME"
        raise ConfigError("settings", place.settings, allowed) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError("settings", place.settings, f"is no TOML: {error}") from None


def reach(address: str, authority: Path) -> None:
    """Ask the coordinator's SuperLink whether it is well, and make sure that it is the right one.

    Raises:
        Finding: it does not answer, or is another one.
    """
    try:
        healthy(address, authority)
    except urllib.error.URLError as error:
        raise Finding(f"{address}: {why(error.reason)}") from None
    except OSError as error:
        raise Finding(f"{address}: {why(error)}") from None


def why(reason: object) -> str:
    """What a failed connection means, and what to do."""
    if isinstance(reason, ssl.SSLCertVerificationError):
        if reason.verify_code in OTHER_NAMES:
            return (
                "its certificate is for other names; there, 'univarfl deploy keys DIR --host ...' "
                "adds this one"
            )
        return (
            f"it is not the one that ca.crt vouches for ({reason.verify_message}); ask the "
            "coordinator for their ca.crt again"
        )
    for kind, meaning in MEANINGS.items():
        if isinstance(reason, kind):
            return meaning
    said = system_reason(reason) if isinstance(reason, OSError) else str(reason)
    return f"{said}; is 'univarfl deploy coordinator' running there, at that port?"
