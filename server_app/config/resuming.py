"""The words that a record keeps of its run, and from which the run is resumed."""

import re
from collections.abc import Sequence
from pathlib import Path

from server_app.config.experiment import RUN_ID, Experiment
from server_app.config.given_weights import KEY, given_weights
from server_app.config.local_paths import FILES, local_paths
from server_app.config.override_text import quoted
from server_app.runs.lookup import find_run, runs_parent
from task.errors import ConfigError

RESUME = "resume="
NULL = "null"  # the default of resume: a new run
OUTPUT = "output_dir="


def recorded_words(words: Sequence[str], experiment: Experiment) -> list[str]:
    """Return words that compose the experiment again, in whatever directory they are used.

    Of two words with the same key the later one counts, and ``resume`` is left out.

    Args:
        words: the words that were typed; those of a resumed run begin with its recorded words.
        experiment: the experiment, with its run directory.
    """
    assert experiment.output_dir
    assert experiment.run_id
    paths = local_paths(experiment.data).items()
    place = _place(Path(experiment.output_dir, experiment.run_id))
    files = [
        f"{group}.{key}={quoted(path)}"
        for group, key in FILES.items()
        if (path := getattr(experiment, group).get(key))
    ]
    given = given_weights(experiment.model)
    weights = [f"{KEY}={quoted(str(given.path))}"] if given else []
    data = [f"data.{key}={quoted(path)}" for key, path in paths]
    every = [*words, *place, *data, *files, *weights]
    by_key = {word.partition("=")[0]: word for word in every if not resumes(word)}
    return list(by_key.values())


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
    from server_app.runs.resuming.record import damaged, unchanged_record  # noqa: PLC0415  (rare)

    recorded = unchanged_record(directory).get("overrides")
    if not isinstance(recorded, list) or not all(isinstance(word, str) for word in recorded):
        raise damaged(directory, "run.json has no overrides")
    first = [word for word in recorded if not resumes(word)]
    return [*first, *rest, *_place(directory), f"{RESUME}{quoted(str(directory))}"]


def resumes(word: str) -> bool:
    """Return whether a word sets ``resume``, also with Hydra's ``+`` or ``++`` in front."""
    return word.lstrip("+").startswith(RESUME)


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


def _place(directory: Path) -> list[str]:
    return [f"output_dir={quoted(str(directory.parent))}", f"run_id={directory.name}"]
