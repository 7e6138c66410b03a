"""The checks that a site makes before it joins: one line each, with a remedy if one fails."""

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography import x509

from task.errors import ConfigError, DataError, DeviceError, SiteError, system_reason
from task.machine.files import OTHERS, create_whole, make_private
from task.machine.regular import read_start
from task.protocol.signature import read_private_key
from task.site import Site
from univarfl.deploy.health.rights import rights_of_others
from univarfl.deploy.joining.reach import (
    CheckFailedError,
    clock_result,
    require_coordinator,
    wait_for_coordinator,
)
from univarfl.deploy.places import SitePlace
from univarfl.flower.health import Health

MAKE_KEYS = "make it with: univarfl deploy keys DIR --site NAME --data DIR"
CACHE = "UNIVARFL_CACHE"  # names another place of decoded images than the site's directory
TRIAL = ".trial-"  # begins the names of directories that show whether a place is writable
EXPIRES_SOON = timedelta(days=30)


@dataclass
class Inspection:
    """The checks of one site.

    Attributes:
        place: the site's directory.
        address: the coordinator's address, HOST:PORT; None to ask no coordinator.
        expect: the first digits of the fingerprint of the coordinator's code, or empty.
        words: the experiment's overrides, or none.
        patient: whether to wait for a coordinator that does not answer yet.
    """

    place: SitePlace
    address: str | None
    expect: str
    words: Sequence[str]
    patient: bool = False
    _answer: Health | None = field(default=None, init=False)

    def lines(self) -> Iterator[tuple[bool, str]]:
        """Yield for each check, as soon as it is made, whether it passed and a line about it."""
        checks: dict[str, Callable[[], str]] = {
            "settings": self._settings,
            "key": self._key,
            "files": self._files,
            "roster": self._roster,
            "coordinator": self._coordinator,
            "clock": self._clock,
            "code": self._code,
            "client state": self._client_state,
            "device": self._device,
            "data": self._data,
        }
        for name, check in checks.items():
            if name == "clock" and self._answer is None:
                continue
            if name == "roster" and not (self.site.roster or self.site.require_secure):
                continue
            try:
                result = check()
            except (CheckFailedError, ConfigError, DataError, DeviceError, SiteError) as reason:
                yield False, f"{name}: {reason}"
            except OSError as error:
                path = error.filename or self.place.directory
                yield False, f"{name}: {path} cannot be used: {system_reason(error)}"
            else:
                yield True, f"{name}: {result}"
                continue
            if name == "settings":  # the other checks need them
                return

    @cached_property
    def site(self) -> Site:
        """The site that the settings describe.

        Raises:
            ConfigError, SiteError: they cannot be read, or a setting is wrong.
        """
        return read_site(self.place)

    def _settings(self) -> str:
        return f"site {self.site.name}, data in {self.site.directory}"

    def _key(self) -> str:
        path = self.place.key(self.site.name)
        try:
            read_private_key(path.read_bytes())
        except FileNotFoundError:
            raise CheckFailedError(f"there is no {path}; {MAKE_KEYS}") from None
        except ValueError:
            reason = f"{path} is not a site's key; delete it and {MAKE_KEYS}"
            raise CheckFailedError(reason) from None
        return f"{path}; the coordinator checks it when the site joins"

    def _files(self) -> str:
        if problem := rights_of_others(self.place, self.site):
            raise CheckFailedError(problem)
        return "only this user can read the keys and change the settings"

    def _roster(self) -> str:
        from task.secure.rules.site_files import comparable, read_roster  # noqa: PLC0415
        from task.secure.rules.threshold import threshold_of  # noqa: PLC0415

        site = self.site
        try:
            key = read_private_key(self.place.key(site.name).read_bytes())
        except (OSError, ValueError):
            raise CheckFailedError("not checked: first correct the key") from None
        roster = read_roster(site, key)
        try:
            needed = threshold_of(len(roster), site.colluding)
        except ValueError as error:
            raise CheckFailedError(f"{error}") from None
        return (
            f"{', '.join(roster)}; each masked sum holds at least {needed} of them; fingerprint "
            f"{comparable(roster)}: compare it with the other sites, not through the coordinator"
        )

    def _coordinator(self) -> str:
        authority = self.place.authority
        try:
            certificate = x509.load_pem_x509_certificate(read_start(authority))
        except FileNotFoundError:
            raise CheckFailedError(
                f"there is no {authority}; ask the coordinator for their ca.crt"
            ) from None
        except ValueError:
            raise CheckFailedError(
                f"{authority} is not a certificate; ask the coordinator for it again"
            ) from None
        left = certificate.not_valid_after_utc - datetime.now(tz=UTC)
        if left < timedelta(0):
            raise CheckFailedError(f"{authority} has expired; ask the coordinator for a new one")
        expires = f"; it expires in {left.days} days" if left < EXPIRES_SOON else ""
        if self.address is None:
            return f"not asked (add --coordinator HOST:PORT); {authority.name} is valid{expires}"
        ask = wait_for_coordinator if self.patient else require_coordinator
        self._answer = ask(self.address, authority)
        return f"{self.address} answers, and {authority.name} confirms its certificate{expires}"

    def _clock(self) -> str:
        assert self._answer is not None
        return clock_result(self._answer)

    def _code(self) -> str:
        from task.fingerprint import fingerprint  # noqa: PLC0415

        if not re.fullmatch("[0-9a-f]*", self.expect):
            raise CheckFailedError(
                f"--expect {self.expect} is not a hash; the coordinator's command prints it"
            )
        if not fingerprint().startswith(self.expect):
            raise CheckFailedError(
                f"the code here is {fingerprint()[:12]}, --expect says {self.expect[:12]}; "
                "install the coordinator's version"
            )
        compared = (
            "the same as the coordinator's" if self.expect else "not compared: add --expect HASH"
        )
        return f"{fingerprint()[:12]}, {compared}"

    def _client_state(self) -> str:
        state, models = self.site.state_directory, self.site.models
        cache = Path(os.environ.get(CACHE) or self.place.cache)
        for place in (state, cache, *([Path(models)] if models else [])):
            try:
                make_private(place)
                if place.stat().st_mode & OTHERS:
                    raise CheckFailedError(
                        f"other users can open {place}, which holds copies of data; "
                        f"chmod go-rwx {place}"
                    )
                with TemporaryDirectory(prefix=TRIAL, dir=place) as trial:
                    create_whole(Path(trial) / "file", b"")
            except OSError as error:
                reason = f"{place} must be writable, with hard links: {system_reason(error)}"
                raise CheckFailedError(reason) from None
        own = f"its own models in {models}" if models else "no models-dir for its own models"
        return f"{state}; decoded images in {cache}; {own}"

    def _device(self) -> str:
        if self.patient and self.site.device != "cuda":
            # The process that supervises a site has no other use for PyTorch's 500 MB.
            return f"{self.site.device}, as the settings say"
        import torch  # noqa: PLC0415

        from task.training.device import choose_device  # noqa: PLC0415

        device = choose_device(self.site.device)
        cuda = "available" if torch.cuda.is_available() else "not available"
        return f"{device.type} (CUDA is {cuda})"

    def _data(self) -> str:
        directory = Path(self.site.directory)
        if not directory.is_dir():
            raise CheckFailedError(
                f"{directory} is not a directory; set data-dir in {self.place.settings}"
            )
        if not self.words:
            return f"{directory} exists; add the experiment's overrides to read its images"
        from server_app.config.composition import compose_experiment  # noqa: PLC0415
        from task.data.site_data import federate_site  # noqa: PLC0415

        experiment = compose_experiment(self.words)
        sites = experiment.partitioner().sites
        if self.site.name not in sites:
            listed = f"lists the sites {', '.join(sites)}" if sites else "has no sites"
            raise CheckFailedError(
                f"the experiment {listed}; add partition=sites partition.names=[...] with "
                f"{self.site.name} in the list"
            )
        self.site.check_extensions(experiment.local().model_dump_json())
        data = federate_site(experiment.local(), self.site)
        ((_, split),) = data.clients.items()
        notes = "".join(f"; {note}" for note in data.notes)
        counts = f"{len(split.train)} training and {len(split.validation)} validation images"
        folders = ", ".join(sorted(name for name in data.dataset.domains if name))
        where = f", in the folders {folders}" if folders else ""
        return f"{counts}, of the classes {', '.join(data.dataset.classes)}{where}{notes}"


def read_site(place: SitePlace) -> Site:
    """Return the site that a directory's settings describe.

    Raises:
        ConfigError: the file cannot be read or is not TOML.
        SiteError: a setting is missing or wrong.
    """
    try:
        return Site.from_node_config(tomllib.loads(read_start(place.settings).decode()))
    except OSError as error:
        allowed = f"cannot be read: {system_reason(error)}; {MAKE_KEYS}"
        raise ConfigError("settings", place.settings, allowed) from None
    except ValueError as error:  # not UTF-8, or not TOML
        raise ConfigError("settings", place.settings, f"is not TOML: {error}") from None
