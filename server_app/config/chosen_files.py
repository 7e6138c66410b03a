"""The files of ``conf/`` that words choose, composed with Hydra.

Hydra takes 0.1 s for them, so what it composed is kept for the next words that choose the same.
"""

import copy
import os
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from server_app.config.choices import CONF, choices, search_path
from server_app.config.override_text import quoted
from server_app.config.overrides import Override
from task.extensions import PLUS

KEPT = 256  # compositions of files; each takes 0.1 MB


def chosen_files(overrides: Sequence[Override]) -> tuple[DictConfig, dict[str, list[str]]]:
    """Return the settings in the files that words choose, and the files' names by group.

    Of two files that set the same key, that of the earlier group counts. ``method=b+a`` takes both
    files and gets the one name ``a+b``. Words that set a single value are left out.
    """
    groups = choices()
    chosen = {each.key: each.value for each in overrides if each.key in groups}
    words = [each.text for each in overrides if each.key in chosen and each.key != "method"]
    methods: list[str] = []
    if "method" in chosen:
        methods = sorted(part.strip(" '\"") for part in chosen["method"].split(PLUS))
        words.append(f"method=[{','.join(methods)}]")
    places = search_path()
    if places:
        words.append(f"hydra.searchpath=[{','.join(quoted(f'file://{path}') for path in places)}]")
    config, names = _composed(tuple(words), _state((CONF, *places)))
    config = copy.deepcopy(config)
    if len(methods) > 1:
        config.method.name = PLUS.join(methods)
    found = {group: [name] for group, name in names.items() if group in groups}
    return config, found | ({"method": methods} if methods else {})


def _state(places: Sequence[Path]) -> tuple[tuple[str, int, int], ...]:
    """Return the files in some directories of settings, each with its time and size."""
    files = sorted(
        f"{folder}/{name}"
        for place in places
        for folder, _, names in os.walk(place)
        for name in names
        if name.endswith(".yaml")
    )
    found = []
    for file in files:
        with suppress(FileNotFoundError):  # a link to nothing, or a file that was just renamed
            now = Path(file).stat()
            found.append((file, now.st_mtime_ns, now.st_size))
    return tuple(found)


@lru_cache(maxsize=KEPT)
def _composed(
    words: tuple[str, ...], state: tuple[tuple[str, int, int], ...]
) -> tuple[DictConfig, dict[str, str]]:
    """Return Hydra's composition of the chosen files, and their names by group.

    Args:
        words: words that choose files.
        state: the files and their times, so that an edited file is read again.
    """
    del state
    with initialize_config_dir(str(CONF), version_base=None):
        whole = compose("config", list(words), return_hydra_config=True)
    names = {group: name for group, name in whole.hydra.runtime.choices.items() if name}
    config = OmegaConf.masked_copy(whole, [str(key) for key in whole if key != "hydra"])
    OmegaConf.set_struct(config, True)
    return config, names
