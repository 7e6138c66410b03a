"""Who sends a request: the site whose key signed its timestamp, just now and once."""

import binascii
import time
from base64 import b64decode
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
from cryptography.hazmat.primitives.hashes import SHA256

from univarfl.deploy.gate.callers.memory import Memory
from univarfl.deploy.gate.callers.sites import RegisteredKey, Sites
from univarfl.deploy.gate.requests import JOINING, Head, RefusedError

# Flower's window, in seconds: a timestamp may be this much ahead of our clock, or behind it.
AHEAD, BEHIND = 5.0, 305.0
LONGEST_TIMESTAMP = 40  # characters
NOT_AUTHENTICATED = 401  # a SuperNode ends when a heartbeat is answered so
NOT_ADMITTED = 412  # a SuperNode that joins prints the reason of this one, and not that of 401

# The codes of `FlowerError`. The first is Flower's own for a key that it does not know.
NOT_REGISTERED, CLOCK_DIFFERS, KEY_REVOKED = 2004, 9001, 9002


@dataclass(frozen=True)
class Caller:
    """The sender of a request.

    Attributes:
        key: the key by which it was recognised.
        expires: when Flower stops to accept its timestamp, in the time of `time.monotonic`.
        signed: its timestamp, in seconds since 1970.
    """

    key: RegisteredKey
    expires: float
    signed: float


class Authentication:
    """Recognises a request's sender; remembers which timestamps were used.

    A SuperNode signs a timestamp and nothing else. Flower accepts each for five minutes, with any
    body; the gate accepts each once. After a restart, it accepts those alone that are later than
    any that was used before.

    Args:
        sites: the keys that may pass.
        memory: keeps the latest timestamp of each key.
    """

    def __init__(self, sites: Sites, memory: Memory) -> None:
        self._sites, self._memory = sites, memory
        self._used: set[tuple[bytes, bytes]] = set()
        self._order: deque[tuple[float, tuple[bytes, bytes]]] = deque()

    def recognise(self, head: Head) -> Caller:
        """Return a request's sender.

        Raises:
            RefusedError: the key is not registered or was revoked, the clocks differ, or the
                signature is wrong.
        """
        text, timestamp, signature = head.authentication
        status = NOT_ADMITTED if head.route in JOINING else NOT_AUTHENTICATED
        pem = decoded(text)
        key = self._sites.find(pem)
        if key is None:
            if revoked := self._sites.find_revoked(pem):
                reason = f"the coordinator has revoked this key of site {revoked.site}"
                raise RefusedError(status, reason, KEY_REVOKED)
            reason = "the coordinator does not know this key; add it to sites/ on the coordinator"
            raise RefusedError(status, reason, NOT_REGISTERED)
        signed_at = moment(timestamp)
        now = datetime.now(tz=UTC)
        age = (now - signed_at).total_seconds()
        if not -AHEAD < age < BEHIND:
            reason = (
                f"the clocks differ: this request was signed at {signed_at.isoformat()}, and the "
                f"coordinator has {now.isoformat()}; set the clock that is wrong"
            )
            raise RefusedError(status, reason, CLOCK_DIFFERS)
        try:
            key.key.verify(decoded(signature), timestamp, ECDSA(SHA256()))
        except InvalidSignature:
            raise RefusedError(NOT_AUTHENTICATED, f"not signed by site {key.site}") from None
        return Caller(key, time.monotonic() + BEHIND - age, signed_at.timestamp())

    def use(self, head: Head, caller: Caller) -> None:
        """Mark a request's timestamp as used.

        Raises:
            RefusedError: it was used before. Two threads of a SuperNode may sign in the same
                microsecond, and Flower repeats a request that is answered with 503.
        """
        now = time.monotonic()
        while self._order and self._order[0][0] < now:
            self._used.discard(self._order.popleft()[1])
        used = (caller.key.pem, head.authentication[1])
        if used in self._used or self._memory.was_used(caller.key.pem, caller.signed):
            raise RefusedError(503, "this authentication was used before")
        self._used.add(used)
        self._memory.sign(caller.key.pem, caller.key.site, caller.signed)
        self._order.append((now + BEHIND + AHEAD, used))

    def is_registered(self, caller: Caller) -> bool:
        """Whether a sender's key may still pass."""
        return self._sites.find(caller.key.pem) is not None


def decoded(text: bytes) -> bytes:
    """Return what a header holds in base64.

    Raises:
        RefusedError: it is not base64.
    """
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise RefusedError(NOT_AUTHENTICATED, "a header is not base64") from None


def moment(timestamp: bytes) -> datetime:
    """Return the time that a timestamp names.

    Raises:
        RefusedError: it is not a time with a zone, in ISO 8601.
    """
    try:
        signed_at = datetime.fromisoformat(timestamp[: LONGEST_TIMESTAMP + 1].decode("ascii"))
    except ValueError:
        signed_at = datetime.min  # noqa: DTZ901  (refused below, because it has no zone)
    if signed_at.tzinfo is None or len(timestamp) > LONGEST_TIMESTAMP:
        raise RefusedError(NOT_AUTHENTICATED, "the timestamp is not a time with a zone")
    return signed_at
