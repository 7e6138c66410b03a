"""Flower's runs: which one was submitted, what became of it, and how to stop it."""

import json
from pathlib import Path
from typing import NamedTuple

from univarfl.flower.output import STARTED_RUN
from univarfl.flower.programs import CONNECTION, run_to_end


class RunStatus(NamedTuple):
    """What Flower says of a run.

    Attributes:
        text: such as ``running`` or ``finished:failed``; empty if Flower does not know the run.
        details: the reason of a failure.
    """

    text: str = ""
    details: str = ""


def submitted_run(output: Path) -> str:
    """Return the id of the run that ``flwr run`` submitted, from its output; empty for none."""
    found = STARTED_RUN.search(output.read_text(errors="replace")) if output.exists() else None
    return found[1] if found else ""


def run_status(home: Path, run_id: str) -> RunStatus:
    """Return the status of a run, from the SuperLink that `home` is connected to."""
    words = ["flwr", "ls", CONNECTION, "--run-id", run_id, "--format", "json"]
    _, output = run_to_end(words, home)
    try:
        answer, _ = json.JSONDecoder().raw_decode(output[output.index("{") :])
        (run,) = answer["runs"]
        return RunStatus(str(run["status"]), str(run["status-details"]))
    except (ValueError, KeyError, TypeError):
        return RunStatus()


def stop_run(home: Path, run_id: str) -> None:
    """Stop a run; do nothing if it has ended or the SuperLink does not know it."""
    if run_id:
        run_to_end(["flwr", "stop", run_id, CONNECTION], home)
