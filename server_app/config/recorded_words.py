"""The words that a record keeps of its run, with every path absolute."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from server_app.config.experiment import Experiment
from server_app.config.override_text import quoted
from task.given_weights import KEY, PRETRAINED, given_weights
from task.machine.files import from_home

PATHS = ("root", "schema", "repo")  # a hub data set's repo may be a local directory
FILES = {"after": "images", "clock": "trace", "sums": "add_to"}  # settings of groups that are paths

RESUME = "resume="


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
    place = words_of_place(Path(experiment.output_dir, experiment.run_id))
    files = [
        f"{group}.{key}={quoted(path)}"
        for group, key in FILES.items()
        if (path := dict(getattr(experiment, group)).get(key))
    ]
    given, origin = given_weights(experiment.model), experiment.model.get(PRETRAINED)
    named = f"{PRETRAINED}:{origin['sha256']}" if origin else given and str(given.path)
    weights = [f"{KEY}={quoted(named)}"] if named else []
    data = [f"data.{key}={quoted(path)}" for key, path in paths]
    every = [*words, *place, *data, *files, *weights]
    by_key = {word.partition("=")[0]: word for word in every if not resumes(word)}
    return list(by_key.values())


def resumes(word: str) -> bool:
    """Return whether a word sets ``resume``, also with Hydra's ``+`` or ``++`` in front."""
    return word.lstrip("+").startswith(RESUME)


def words_of_place(directory: Path) -> list[str]:
    """Return the words for a run directory."""
    return [f"output_dir={quoted(str(directory.parent))}", f"run_id={directory.name}"]


def downloaded(name: str) -> str:
    """Return where a data set is downloaded to without a root: where sweeps look for it."""
    return str(Path(os.environ.get("DATA", "data"), name))


def local_paths(data: Mapping[str, Any]) -> dict[str, str]:
    """Return the paths of a data set that lie on this machine, absolute, by their key."""
    typed = {key: from_home(str(data[key])) for key in PATHS if data.get(key)}
    return {
        key: str(path.absolute()) for key, path in typed.items() if key != "repo" or path.is_dir()
    }
