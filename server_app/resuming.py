"""Going on with a run that has not been completed."""

import json
from collections.abc import Sequence

from server_app.quoting import quoted
from task.errors import ConfigError
from task.files import from_home

RESUME = "resume="


def whole_words(words: Sequence[str]) -> list[str]:
    """The words themselves or, where one is ``resume=DIRECTORY``, the words of that run first.

    Raises:
        ConfigError: there is no such run.
    """
    named = [word.removeprefix(RESUME) for word in words if word.startswith(RESUME)]
    if not named:
        return list(words)
    directory = from_home(named[-1].strip("'\"")).absolute()
    try:
        began = json.loads((directory / "run.json").read_text())["overrides"]
    except (OSError, ValueError, KeyError):
        allowed = "must be the directory of a run, with its run.json"
        raise ConfigError("resume", directory, allowed) from None
    rest = [word for word in words if not word.startswith(RESUME)]
    place = [f"output_dir={quoted(str(directory.parent))}", f"run_id={directory.name}"]
    began = [word for word in began if not word.startswith(RESUME)]
    return [*began, *rest, *place, f"{RESUME}{quoted(str(directory))}"]
