"""The experiments that a site's owner has approved, and those that wait for it.

An experiment is the text that the coordinator sends with each request: all settings of local
training, the number of rounds and the stage after training among them. Its name is the SHA-256 of
this text, so an approval holds for exactly these settings.

The coordinator chooses the models and the ids of runs. So an approval holds for `MOST_RUNS` runs,
and in each round of a run for `MOST_ANSWERS` requests of a kind: a round can be repeated after
failures. They are counted on the disk before they are answered. Approving again starts a new count.
"""

import hashlib
import os
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

from filelock import FileLock

from task.config import MEASURED
from task.errors import ConfigError, SiteError
from task.machine.files import create_whole, make_private
from task.rules import read_local_config
from task.site import Site

DIRECTORY, LOCK = "approvals", "lock"
WAITING, APPROVED, ANSWERS = ".json", ".approved", ".answers"
MOST_WAITING = 100
MOST_RUNS = 3  # that an approval holds for
MOST_ANSWERS = 5  # to requests of one kind in one round of a run
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

    def require(self, site: str, experiment: str, run: str) -> None:
        """Keep an experiment for the owner, and refuse it unless the owner has approved it.

        Args:
            site: the site's name.
            experiment: the text that the coordinator has sent.
            run: the run's id.

        Raises:
            SiteError: it is not approved, or was approved for fewer runs.
            OSError: it cannot be kept, or the run cannot be counted.
        """
        name = name_of(experiment)
        if self._approval(name).is_file():
            self._admit(site, name, run)
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

    def count(self, site: str, experiment: str, run: str, what: str, most: int) -> None:
        """Count a request about the site's images before it is answered.

        Args:
            site: the site's name.
            experiment: the text that the coordinator has sent, which is approved.
            run: the run's id, which `require` has counted.
            what: the kind of request and its round.
            most: how many of them are answered in a run.

        Raises:
            SiteError: it is one too many.
            OSError: it cannot be counted.
        """
        name = name_of(experiment)
        with FileLock(self._place / LOCK):
            if self._counts(name)[run, what] >= most:
                raise SiteError(
                    f"site {site} has answered {most} requests '{what}' of this run, the most that "
                    "an approval holds for; start a new run"
                )
            self._append(name, f"{run} {what}")

    def answered(self, asked: Asked) -> tuple[int, int]:
        """Return in how many runs, and how many requests, an approval was used."""
        counts = self._counts(asked.name)
        runs = sum(len(key) == 1 for key in counts)
        return runs, counts.total() - runs

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
        """Approve an experiment, or approve it for as many more runs.

        Raises:
            OSError: the approval cannot be written.
        """
        self._answers(asked.name).unlink(missing_ok=True)
        create_whole(self._approval(asked.name), b"")

    def withdraw(self, asked: Asked) -> None:
        """Withdraw an approval; the experiment waits again.

        Raises:
            OSError: the approval cannot be deleted.
        """
        self._approval(asked.name).unlink(missing_ok=True)

    def _admit(self, site: str, name: str, run: str) -> None:
        """Count a run at its first request.

        Raises:
            SiteError: there were enough runs.
            OSError: it cannot be counted.
        """
        with FileLock(self._place / LOCK):
            runs = {key[0] for key in self._counts(name)}
            if run not in runs:
                if len(runs) >= MOST_RUNS:
                    raise SiteError(
                        f"the owner of site {site} has approved this experiment for {MOST_RUNS} "
                        f"runs, which have begun; the owner can approve it again ({name[:DIGITS]})"
                    )
                self._append(name, run)

    def _append(self, name: str, line: str) -> None:
        with self._answers(name).open("a", encoding="ascii") as file:
            file.write(f"{line}\n")
            file.flush()
            os.fsync(file.fileno())

    def _counts(self, name: str) -> Counter[tuple[str, ...]]:
        """Return what was counted: by run, and by run and kind of request."""
        with suppress(FileNotFoundError):
            lines = self._answers(name).read_text(encoding="ascii").splitlines()
            return Counter(tuple(line.split(" ", 1)) for line in lines)
        return Counter()

    def _approval(self, name: str) -> Path:
        return self._place / f"{name}{APPROVED}"

    def _answers(self, name: str) -> Path:
        return self._place / f"{name}{ANSWERS}"


def name_of(experiment: str) -> str:
    """Return the name of an experiment: the SHA-256 of its text as it was before round 1.

    The mean and deviation of columns, which clients are asked for then, do not count.
    """
    if f'"{MEASURED}":' in experiment:
        config = read_local_config(experiment)
        data = {key: value for key, value in config.data.items() if key != MEASURED}
        experiment = config.model_copy(update={"data": data}).model_dump_json()
    return hashlib.sha256(experiment.encode()).hexdigest()
