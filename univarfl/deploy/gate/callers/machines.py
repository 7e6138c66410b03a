"""One machine for each key: a second one is refused while the first sends requests."""

import time

from univarfl.deploy.gate.authentication import NOT_ADMITTED, NOT_AUTHENTICATED, Caller
from univarfl.deploy.gate.callers.memory import Memory, Refused, Use
from univarfl.deploy.gate.requests import DEACTIVATE, JOINING, Head, RefusedError

# A SuperNode sends a heartbeat every 23 s at the latest. Flower also waits for a minute.
ALIVE_SECONDS = 60.0
WRITE_SECONDS = 1.0  # how often a refused machine is written into the file
KEY_IN_USE = 9003  # the code of `FlowerError`


class Machines:
    """The machines that use the sites' keys.

    A SuperNode signs a timestamp alone, so that a copy of its key signs as well. Each request of a
    site therefore names its machine.

    Args:
        memory: keeps which machine uses which key.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def require_only(self, caller: Caller, head: Head, address: str) -> None:
        """Note a request of a machine; the key is its own while it sends requests.

        Raises:
            RefusedError: another machine uses the key.
        """
        use = self._memory.use_of(caller.key.pem, caller.key.site)
        now = time.time()
        if use.machine not in (None, head.machine) and is_alive(use, now):
            written = use.refused.at if use.refused else 0.0
            if abs(now - written) > WRITE_SECONDS:
                use.refused = Refused(address=address, at=now)
                self._memory.keep()
            status = NOT_ADMITTED if head.route in JOINING | DEACTIVATE else NOT_AUTHENTICATED
            reason = (
                f"another machine or directory, at {use.address}, uses the key of site "
                f"{use.site} and was heard {now - use.heard:.0f} s ago"
            )
            raise RefusedError(status, reason, KEY_IN_USE)
        changed = use.machine != head.machine
        use.machine, use.address, use.heard = head.machine, address, now
        if changed:
            use.refused = None
            self._memory.keep()

    def notice(self, caller: Caller) -> str:
        """Return what a site has to know of another machine with its key; empty for nothing."""
        use = self._memory.use_of(caller.key.pem, caller.key.site)
        if not is_refused(use, time.time()):
            return ""
        assert use.refused
        return (
            f"another machine or directory, at {use.refused.address}, asks with the key of site "
            f"{use.site} and is refused. Stop it; if it is not yours, your key was copied: ask the "
            "coordinator to revoke it, and make a new one"
        )


def is_alive(use: Use, now: float) -> bool:
    """Whether the machine that uses a key still sends requests; clocks may be set back."""
    return abs(now - use.heard) < ALIVE_SECONDS


def is_refused(use: Use, now: float) -> bool:
    """Whether another machine has asked in vain within the last minute."""
    return use.refused is not None and abs(now - use.refused.at) < ALIVE_SECONDS
