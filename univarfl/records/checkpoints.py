"""How far a run has come, and how it goes on, from its checkpoints."""

import shlex
from pathlib import Path

from server_app.runs.checkpoint import DIRECTORY, checkpoints
from task.machine.files import round_files


def last_round(directory: Path) -> int:
    """Return the number of a run's last full round; 0 if it has completed none."""
    return max(round_files(directory / DIRECTORY), default=0)


def onward(directory: Path) -> str:
    """Return how a simulated run goes on, to end an error; empty if it has no checkpoint."""
    if not checkpoints(directory):
        return ""
    return f"; resume the run with: univarfl train {shlex.quote(f'resume={directory}')}"
