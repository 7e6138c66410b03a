"""A name for this machine and a directory on it, which a copy of the directory does not have."""

import hashlib
import platform
import uuid
from pathlib import Path

BOOT = Path("/proc/sys/kernel/random/boot_id")  # Linux: new at each start of the system
MACHINE = Path("/etc/machine-id")  # shared by copies of a virtual machine
DIGITS = 32


def machine_name(directory: Path) -> str:
    """Return the name of a site's directory on this machine, as hexadecimal digits.

    It stays the same until the machine starts again. So a site that was killed can return at once.
    """
    found = directory.stat()
    facts = [text_of(BOOT), text_of(MACHINE), str(found.st_dev), str(found.st_ino)]
    if not facts[0]:
        facts += [platform.node(), f"{uuid.getnode():x}"]
    return hashlib.sha256("\0".join(facts).encode()).hexdigest()[:DIGITS]


def text_of(path: Path) -> str:
    """Return the text of a small file of the system; empty if there is none."""
    try:
        return path.read_text().strip()
    except (OSError, ValueError):
        return ""
