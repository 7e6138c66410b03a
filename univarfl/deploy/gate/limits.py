"""How much one site, one address and all together may ask of the gate at a time."""

import contextlib
import time
from collections import Counter
from collections.abc import Iterator

from univarfl.deploy.gate.requests import LARGEST_REQUEST, RefusedError

SITE_CONCURRENT = 16  # requests; a SuperNode has at most five
SITE_RATE, SITE_BURST = 200.0, 2000.0  # requests a second, and at once after a pause
SITE_BYTES, ALL_BYTES = 4 * LARGEST_REQUEST, 32 * LARGEST_REQUEST  # of bodies in memory

# A body may take this long and a second more for each `SLOWEST` bytes, and so may an answer.
GRACE_SECONDS, SLOWEST = 20.0, 8 * 2**10


def seconds_for(length: int) -> float:
    """Return how long the transfer of a body may take."""
    return GRACE_SECONDS + length / SLOWEST


class Limits:
    """The requests and bytes in progress, and how many requests each site has left."""

    def __init__(self) -> None:
        self._in_progress: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._left: dict[str, tuple[float, float]] = {}

    def count(self, site: str) -> None:
        """Count one request of a site.

        Raises:
            RefusedError: the site asks too often.
        """
        now = time.monotonic()
        left, before = self._left.get(site, (SITE_BURST, now))
        left = min(SITE_BURST, left + (now - before) * SITE_RATE)
        if left < 1:
            raise RefusedError(503, f"more than {SITE_RATE:g} requests a second")
        self._left[site] = (left - 1, now)

    @contextlib.contextmanager
    def progress(self, site: str, length: int) -> Iterator[None]:
        """Hold a site's place for one request, and memory for its body.

        Raises:
            RefusedError: the site has too many requests in progress, or the memory is used up.
        """
        if self._in_progress[site] >= SITE_CONCURRENT:
            raise RefusedError(503, f"more than {SITE_CONCURRENT} requests at a time")
        if self._bytes[site] + length > SITE_BYTES:
            raise RefusedError(503, f"more than {SITE_BYTES} bytes at a time")
        if self._bytes.total() + length > ALL_BYTES:
            raise RefusedError(503, "the gate has no memory left for this body")
        self._in_progress[site] += 1
        self._bytes[site] += length
        try:
            yield
        finally:
            self._in_progress[site] -= 1
            self._bytes[site] -= length
