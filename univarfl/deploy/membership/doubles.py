"""Two machines with one site's key, as the gate has noted them."""

import shlex
import time

from univarfl.deploy.gate.callers.machines import is_refused
from univarfl.deploy.gate.callers.memory import read_uses
from univarfl.deploy.places import CoordinatorPlace


class Doubles:
    """Tells the coordinator of machines that are refused because another one uses their key.

    Args:
        place: the coordinator's directory.
    """

    def __init__(self, place: CoordinatorPlace) -> None:
        self._place = place
        self._changed = 0
        self._said: set[tuple[str, str]] = set()

    def update(self) -> list[str]:
        """Return a line about each refused machine that is new since the last look."""
        try:
            changed = self._place.gate_memory.stat().st_mtime_ns
        except OSError:
            return []
        if changed == self._changed:
            return []
        self._changed = changed
        now, lines, found = time.time(), [], set()
        for use in read_uses(self._place.gate_memory).values():
            if use.refused is None or not is_refused(use, now):
                continue
            found.add((use.site, use.refused.address))
            if (use.site, use.refused.address) not in self._said:
                directory = shlex.quote(str(self._place.directory))
                lines.append(
                    f"warning: two machines or directories use the key of site {use.site}: the one "
                    f"at {use.address} takes part, the one at {use.refused.address} is refused; "
                    "ask the site, and if its key was copied: "
                    f"univarfl deploy revoke {directory} {use.site}"
                )
        self._said = found
        return lines
