"""Directories of this machine's user."""

import os
from pathlib import Path

from task.machine.files import from_home


def user_state_directory() -> Path:
    """Return this program's directory for lasting state: ``$XDG_STATE_HOME/univarfl``.

    Without that variable it is ``~/.local/state/univarfl``.
    """
    return from_home(os.environ.get("XDG_STATE_HOME") or "~/.local/state") / "univarfl"
