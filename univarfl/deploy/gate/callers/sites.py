"""The sites whose keys are in ``sites/``, read again within a second when a file changes."""

import re
import time
from dataclasses import dataclass, replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

from task.protocol.public_keys import PublicKeyError, loaded
from univarfl.deploy.membership.public_keys import pem, read_public_key

READ_AGAIN_SECONDS = 1.0
REVOKED = "revoked"  # a folder of sites/ with the keys that were taken out
HASH = re.compile(r"\.[0-9a-f]{12}$")  # in their files' names, which would be equal otherwise


@dataclass(frozen=True)
class RegisteredKey:
    """A site's name and key.

    Attributes:
        site: the site's name, which is the file's.
        pem: the key as a SuperNode sends it.
        key: the key.
    """

    site: str
    pem: bytes
    key: EllipticCurvePublicKey


class Sites:
    """The keys that may pass the gate.

    Args:
        directory: the folder of the files NAME.pub.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._keys: dict[bytes, RegisteredKey] = {}
        self._revoked: dict[bytes, RegisteredKey] = {}
        self._seen: list[tuple[Path, int, int]] = []
        self._read_at = -READ_AGAIN_SECONDS

    def find(self, pem: bytes) -> RegisteredKey | None:
        """Return the registered key that is equal to a SuperNode's, or None."""
        self._read()
        return self._keys.get(pem)

    def find_revoked(self, pem: bytes) -> RegisteredKey | None:
        """Return the revoked key that is equal to a SuperNode's, or None."""
        self._read()
        return self._revoked.get(pem)

    def _read(self) -> None:
        """Read the files again if one has changed, at most once in `READ_AGAIN_SECONDS`."""
        now = time.monotonic()
        if now - self._read_at < READ_AGAIN_SECONDS:
            return
        self._read_at = now
        seen = files_in(self._directory) + files_in(self._directory / REVOKED)
        if seen != self._seen:
            self._seen = seen
            self._keys = keys_in(self._directory)
            revoked = keys_in(self._directory / REVOKED)
            self._revoked = {
                pem: replace(key, site=HASH.sub("", key.site)) for pem, key in revoked.items()
            }


def files_in(directory: Path) -> list[tuple[Path, int, int]]:
    """Return each NAME.pub of a directory with the time of its last change and its size."""
    found = []
    for path in sorted(directory.glob("*.pub")):
        try:
            state = path.stat()
        except OSError:  # it was removed in between
            continue
        found.append((path, state.st_mtime_ns, state.st_size))
    return found


def keys_in(directory: Path) -> dict[bytes, RegisteredKey]:
    """Return the usable keys of a directory by their PEM text; the first name has a shared key."""
    keys: dict[bytes, RegisteredKey] = {}
    for path, _, _ in files_in(directory):
        try:
            text = read_public_key(path)
        except PublicKeyError:
            continue  # the coordinator prints a line about it
        sent = pem(text)
        keys.setdefault(sent, RegisteredKey(path.stem, sent, loaded(text.encode())))
    return keys
