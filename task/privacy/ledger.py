"""A site's ledger: the privacy that its images have spent, over all runs.

The ledger is a file of the site's own. A round is charged before it is trained, and a repeated
round is charged again. Nothing that a coordinator sends lowers what is spent, and no clock is read.

Images are known by their content. What an image has spent is what all sets of images have spent
that hold it. So added, renamed or moved images do not start a new account for the others.

Not covered: whoever controls the site's disk can delete the file or restore an older one. An image
that is stored again in another encoding counts as a new one.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from filelock import FileLock
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from task.errors import SiteError
from task.machine.files import make_private, write_whole
from task.privacy.accounting import SampledGaussian, pld_epsilon
from task.privacy.images import Hashes, image_hashes

DIRECTORY, LEDGER, LOCK, IMAGES = "privacy-ledger", "ledger.json", "lock", ".images"
MOST_SETTINGS = 100  # each takes 30 ms in every later charge
Stored = np.dtype("<u8")
DIGEST_BYTES = 32  # of SHA-256
DAMAGED = (
    "its privacy ledger cannot be read, so the site refuses all training that spends "
    "epsilon; its owner can restore the file from a backup"
)


class Charge(BaseModel):
    """Steps of DP-SGD on one set of images.

    Attributes:
        images: names the set of images.
        noise_multiplier: the noise's standard deviation divided by the clipping norm.
        sampling_rate: the probability of each image to be in a batch.
        steps: the number of batches in all rounds with these settings.
    """

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    images: str = Field(pattern=r"^[0-9a-f]{32}$")
    noise_multiplier: float = Field(gt=0)
    sampling_rate: float = Field(gt=0, le=1)
    steps: int = Field(ge=1)


class Charges(BaseModel):
    """All that a site has ever charged."""

    model_config = ConfigDict(extra="forbid", strict=True)

    charges: list[Charge]


@dataclass(frozen=True)
class PrivacyLedger:
    """The ledger in a directory, and its owner's limit.

    Attributes:
        directory: where it is kept.
        max_epsilon: the largest epsilon of any image.
        delta: the delta of this epsilon.
    """

    directory: Path
    max_epsilon: float
    delta: float

    def charge(self, images: Hashes, training: SampledGaussian) -> float:
        """Charge a round, and return the epsilon that the images have spent with it.

        When this returns, the charge is on the disk.

        Raises:
            SiteError: the round would exceed the limit, or the ledger is damaged; nothing is
                charged.
            OSError: the ledger cannot be written; nothing is charged.
        """
        make_private(self.directory)
        with FileLock(self.directory / LOCK):
            charges = self._read()
            earlier = self._of(images, charges)
            before, after = grouped(earlier), grouped([*earlier, training])
            if len(after) > MOST_SETTINGS:
                raise SiteError(
                    f"its images have been trained on with {MOST_SETTINGS} pairs of noise and "
                    "sampling rate, and more would make the ledger slow; use one of these pairs"
                )
            epsilon = pld_epsilon(after, self.delta)
            if not epsilon <= self.max_epsilon:
                spent = pld_epsilon(before, self.delta)
                raise SiteError(
                    f"its images have spent epsilon {spent:.3f} of at most {self.max_epsilon:g} at "
                    f"delta {self.delta:g} (its max-epsilon), and this round would make it "
                    f"{epsilon:.3f}; use more noise, or ask its owner"
                )
            if not charges:
                self._write([])  # before any set of images, so that its loss can be noticed
            name = self._keep(images)
            self._write([*charges, Charge(images=name, **training._asdict())])
            return epsilon

    def spent(self, images: Hashes) -> float:
        """Return the epsilon that the images have spent.

        Raises:
            SiteError: the ledger is damaged.
        """
        return pld_epsilon(grouped(self._of(images, self._read())), self.delta)

    def images_of(self, version: str, directory: Path) -> Hashes:
        """Return the hashes of the files in a directory, read only once for each state of it.

        Args:
            version: changes with the names, sizes and times of the files.
            directory: where they are.

        Raises:
            OSError: a file cannot be read, or the hashes cannot be kept.
        """
        path = self.directory / f"{version}.files"
        with suppress(FileNotFoundError):
            kept = path.read_bytes()
            name, content = kept[:DIGEST_BYTES], kept[DIGEST_BYTES:]
            if hashlib.sha256(content).digest() == name:  # otherwise it was cut, or is older
                return np.frombuffer(content, Stored)
        found = image_hashes(directory)
        content = found.astype(Stored).tobytes()
        make_private(self.directory)
        write_whole(path, hashlib.sha256(content).digest() + content)
        return found

    def _read(self) -> list[Charge]:
        """Return all charges.

        Raises:
            SiteError: the file is there and cannot be read, or is not a ledger.
        """
        path = self.directory / LEDGER
        try:
            return Charges.model_validate_json(path.read_bytes()).charges
        except FileNotFoundError:
            if any(self.directory.glob(f"*{IMAGES}")):  # what was charged to them is lost
                raise SiteError(DAMAGED) from None
            return []
        except (OSError, ValidationError):
            raise SiteError(DAMAGED) from None

    def _write(self, charges: Sequence[Charge]) -> None:
        """Replace the file as a whole, and flush it to the disk."""
        steps: dict[tuple[str, float, float], int] = defaultdict(int)
        for charge in charges:
            steps[charge.images, charge.noise_multiplier, charge.sampling_rate] += charge.steps
        rows = [
            {"images": images, "noise_multiplier": noise, "sampling_rate": rate, "steps": count}
            for (images, noise, rate), count in steps.items()
        ]
        write_whole(self.directory / LEDGER, json.dumps({"charges": rows}, indent=1).encode())

    def _keep(self, images: Hashes) -> str:
        """Keep a set of images, and return its name."""
        content = images.astype(Stored).tobytes()
        name = hashlib.sha256(content).hexdigest()[:32]
        path = self.directory / f"{name}{IMAGES}"
        if not path.exists():
            write_whole(path, content)
        return name

    def _of(self, images: Hashes, charges: Sequence[Charge]) -> list[SampledGaussian]:
        """Return what was charged to sets that share an image with these.

        Raises:
            SiteError: a set is missing or damaged.
        """
        shared = {
            name: bool(np.isin(self._kept(name), images).any())
            for name in {charge.images for charge in charges}
        }
        return [
            SampledGaussian(charge.noise_multiplier, charge.sampling_rate, charge.steps)
            for charge in charges
            if shared[charge.images]
        ]

    def _kept(self, name: str) -> Hashes:
        """Return a set of images.

        Raises:
            SiteError: it is missing or damaged.
        """
        try:
            content = (self.directory / f"{name}{IMAGES}").read_bytes()
        except OSError:
            raise SiteError(DAMAGED) from None
        if hashlib.sha256(content).hexdigest()[:32] != name:
            raise SiteError(DAMAGED)
        return np.frombuffer(content, Stored)


def grouped(trainings: Sequence[SampledGaussian]) -> tuple[SampledGaussian, ...]:
    """Return the trainings with the steps of equal settings added up."""
    steps: dict[tuple[float, float], int] = defaultdict(int)
    for charge in trainings:
        steps[charge.noise_multiplier, charge.sampling_rate] += charge.steps
    return tuple(SampledGaussian(*key, count) for key, count in sorted(steps.items()))
