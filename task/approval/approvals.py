"""The experiments that a site's owner has approved, and those that wait for it.

An experiment is the text that the coordinator sends with each request: all settings of local
training, the number of rounds among them. Its name is the SHA-256 of this text, so an approval
holds for exactly these settings.
"""

import hashlib
from pathlib import Path
from typing import NamedTuple, Self

from task.errors import ConfigError, SiteError
from task.machine.files import create_whole, make_private
from task.site import Site

DIRECTORY = "approvals"
WAITING, APPROVED = ".json", ".approved"
MOST_WAITING = 100
DIGITS = 12  # of a name, as it is shown


class Asked(NamedTuple):
    """One experiment.

    Attributes:
        name: the SHA-256 of its text.
        path: the file with its text, a `task.config.LocalConfig` as JSON.
        approved: whether the owner has approved it.
    """

    name: str
    path: Path
    approved: bool


class Approvals:
    """The experiments that a site was asked to train in.

    Args:
        place: the site's directory of them.
    """

    def __init__(self, place: Path) -> None:
        self._place = place

    @classmethod
    def of_site(cls, site: Site) -> Self:
        """Return the experiments that a site was asked to train in."""
        return cls(site.state_directory / DIRECTORY)

    def require(self, site: str, experiment: str) -> None:
        """Keep an experiment for the owner, and refuse it unless the owner has approved it.

        Args:
            site: the site's name.
            experiment: the text that the coordinator has sent.

        Raises:
            SiteError: it is not approved.
            OSError: it cannot be kept.
        """
        name = hashlib.sha256(experiment.encode()).hexdigest()
        if self._approval(name).is_file():
            return
        path = self._place / f"{name}{WAITING}"
        if not path.exists():
            make_private(self._place)
            if len(self.waiting()) >= MOST_WAITING:
                raise SiteError(
                    f"{MOST_WAITING} experiments wait for approval by the owner of site {site}; "
                    "the owner can delete them"
                )
            create_whole(path, experiment.encode())
        raise SiteError(
            f"the owner of site {site} has not approved this experiment yet "
            f"({name[:DIGITS]}); start the run again once it is approved"
        )

    def asked(self) -> list[Asked]:
        """Return the experiments that the site was asked to train in, the first one first."""
        paths = [path for path in self._place.glob(f"*{WAITING}") if path.is_file()]
        paths.sort(key=lambda path: (path.stat().st_mtime, path.name))
        return [Asked(path.stem, path, self._approval(path.stem).is_file()) for path in paths]

    def waiting(self) -> list[Asked]:
        """Return the experiments that are not approved."""
        return [each for each in self.asked() if not each.approved]

    def find(self, digits: str) -> Asked:
        """Return the one experiment whose name begins so.

        Raises:
            ConfigError: there is none, or more than one.
        """
        found = [each for each in self.asked() if digits and each.name.startswith(digits)]
        if len(found) != 1:
            known = ", ".join(each.name[:DIGITS] for each in self.asked()) or "none yet"
            allowed = f"must be the first digits of exactly one of these hashes: {known}"
            raise ConfigError("HASH", digits, allowed)
        return found[0]

    def approve(self, asked: Asked) -> None:
        """Approve an experiment.

        Raises:
            OSError: the approval cannot be written.
        """
        create_whole(self._approval(asked.name), b"")

    def withdraw(self, asked: Asked) -> None:
        """Withdraw an approval; the experiment waits again.

        Raises:
            OSError: the approval cannot be deleted.
        """
        self._approval(asked.name).unlink(missing_ok=True)

    def _approval(self, name: str) -> Path:
        return self._place / f"{name}{APPROVED}"
