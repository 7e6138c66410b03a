"""What the gate keeps of each key in a file, so that a restart of the gate forgets nothing."""

import hashlib
import time
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from task.errors import system_reason
from task.machine.files import write_whole
from univarfl.deploy.gate.log import refusals

AHEAD_SECONDS = 1.0  # a file that was written holds for timestamps up to this much later
FORGOTTEN_SECONDS = 600.0  # after as long without a request, no timestamp of it is accepted


class Refused(BaseModel):
    """The last machine that was refused because another one uses the key.

    Attributes:
        address: its address, as the gate sees it.
        at: when it asked last, in seconds since 1970.
    """

    model_config = ConfigDict(extra="forbid")

    address: str
    at: float


class Use(BaseModel):
    """How a key is used.

    Attributes:
        site: the site's name.
        until: no timestamp up to this one is accepted after a restart, in seconds since 1970.
        machine: the machine that uses the key; empty for a plain ``flower-supernode``.
        address: its address, as the gate sees it.
        heard: when it asked last, in seconds since 1970.
        refused: another machine that was refused.
    """

    model_config = ConfigDict(extra="forbid")

    site: str
    until: float = 0.0
    machine: str | None = None
    address: str = ""
    heard: float = 0.0
    refused: Refused | None = None
    signed: float = Field(default=0.0, exclude=True)  # the latest timestamp since the start


USES = TypeAdapter(dict[str, Use])


class Memory:
    """The uses of the keys, in a file.

    Args:
        file: where they are kept.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._uses = read_uses(file)
        self._before = {name: use.until for name, use in self._uses.items()}

    def use_of(self, pem: bytes, site: str) -> Use:
        """Return the use of a key, which the caller may change and then `keep`."""
        return self._uses.setdefault(name_of(pem), Use(site=site))

    def was_used(self, pem: bytes, signed: float) -> bool:
        """Whether a timestamp may have been used before this process started."""
        return signed <= self._before.get(name_of(pem), 0.0)

    def sign(self, pem: bytes, site: str, signed: float) -> None:
        """Note that a timestamp is used; write the file if it would be accepted after a restart."""
        use = self.use_of(pem, site)
        use.signed = max(use.signed, signed)
        if use.signed > use.until:
            self.keep()

    def keep(self) -> None:
        """Write the file; each key that is in use needs no other writing for a second.

        A file that cannot be written is logged, and the gate goes on.
        """
        oldest = time.time() - FORGOTTEN_SECONDS
        self._uses = {
            name: use for name, use in self._uses.items() if max(use.heard, use.signed) > oldest
        }
        for use in self._uses.values():
            if use.signed:
                use.until = max(use.until, use.signed + AHEAD_SECONDS)
        try:
            write_whole(self._file, USES.dump_json(self._uses, indent=1))
        except OSError as error:
            refusals.warning("%s cannot be written: %s", self._file, system_reason(error))


def name_of(pem: bytes) -> str:
    """Return the name of a key in the file."""
    return hashlib.sha256(pem).hexdigest()


def read_uses(file: Path) -> dict[str, Use]:
    """Return the uses in a file; none if there is no such file, or it is damaged."""
    try:
        return USES.validate_json(file.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValidationError):
        refusals.warning("%s cannot be read and is made again", file)
        return {}
