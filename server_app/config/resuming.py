"""The words of a run that is resumed."""

import re
from collections.abc import Sequence
from pathlib import Path

from server_app.config.experiment import RUN_ID
from server_app.config.override_text import quoted
from server_app.config.recorded_words import RESUME, resumes, words_of_place
from server_app.runs.lookup import find_run, runs_parent
from task.errors import ConfigError

NULL = "null"  # the default of resume: a new run
OUTPUT = "output_dir="


def whole_words(words: Sequence[str], runs: Path | None = None) -> list[str]:
    """Replace ``resume=DIRECTORY`` by the words of that run; other words stay as they are.

    Args:
        words: the words; the directory may also be the name of a run, or ``latest``.
        runs: where to look for a name; None for the ``output_dir`` of the words, see `find_run`.

    Raises:
        ConfigError: there is no such run.
    """
    rest = [word for word in words if not resumes(word)]
    resumed = [word.partition("=")[2].strip(" '\"") for word in words if resumes(word)]
    if not resumed or resumed[-1] == NULL:
        return rest
    named = [word.removeprefix(OUTPUT).strip("'\"") for word in words if word.startswith(OUTPUT)]
    if runs is None and named:
        runs = runs_parent(named[-1])
    directory = resumed_run(resumed[-1], runs)
    from server_app.runs.records.record import damaged  # noqa: PLC0415
    from server_app.runs.resuming.record import record_to_resume  # noqa: PLC0415  (rarely used)

    recorded = record_to_resume(directory).overrides
    if recorded is None:
        raise damaged(directory, "run.json has no overrides")
    first = [word for word in recorded if not resumes(word)]
    return [*first, *rest, *words_of_place(directory), f"{RESUME}{quoted(str(directory))}"]


def resumed_run(name: str, runs: Path | None) -> Path:
    """Return the directory of the run to resume.

    Raises:
        ConfigError: there is no such run.
    """
    try:
        directory = find_run(name, runs)
    except ConfigError as error:
        raise ConfigError("resume", error.value, error.allowed) from None
    if not re.fullmatch(RUN_ID, directory.name):
        allowed = "rename the directory: use letters, digits, '.', '_', '+' and '-' alone"
        raise ConfigError("resume", directory, allowed)
    return directory
