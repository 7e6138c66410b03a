"""What a person can choose: components, tables and keys, each with a line from ``conf/``."""

import re
from collections.abc import Iterator
from itertools import takewhile

from server_app.config.choices import SWEEPS, choices, files_in, names_in
from server_app.config.conf_settings import choices_with, general_settings, settings_of_choice
from server_app.config.override_text import as_typed
from server_app.config.vocabulary import nearest
from task.errors import ConfigError

KEYS = "keys"
PLURALS = {
    "methods": "method", "strategies": "strategy", "data": "data", "models": "model",
    "partitions": "partition", "augmentations": "augmentation", "guards": "guard",
    "experiments": "experiment", "tables": SWEEPS, "federations": "federation",
    "protocols": "protocol", "optimizers": "optim", "runtimes": "runtime", "secure": "secure",
}  # fmt: skip


def kinds() -> list[str]:
    """Return the words for what can be listed; a group without a plural has its own name."""
    plurals = {group: plural for plural, group in PLURALS.items()}
    return [*(plurals.get(group, group) for group in (*choices(), SWEEPS)), KEYS]


def listing(kind: str) -> list[tuple[str, str]]:
    """Return names and what they are.

    Args:
        kind: one of `kinds`, or the name of a group.

    Raises:
        ConfigError: there is no such kind.
    """
    if kind == KEYS:
        return list(keys())
    group = PLURALS.get(kind, kind)
    if group not in (*choices(), SWEEPS):
        close = nearest(kind, [*kinds(), *choices()])
        likely = f"did you mean {close}? " if close else ""
        raise ConfigError("list", kind, f"{likely}choose one of {', '.join(kinds())}")
    return [(name, about(group, name)) for name in names_in(group)]


def about(group: str, name: str) -> str:
    """Return the first sentence at the head of a file of ``conf/``."""
    lines = files_in(group)[name].read_text().splitlines()
    head = [line.lstrip("# ") for line in takewhile(lambda line: line.startswith("#"), lines)]
    head = [line for line in head if not line.startswith("@package")]
    text = " ".join(takewhile(lambda line: not line.startswith("Example"), head))
    return re.split(r"(?<!Eq)\. (?=[A-Z])", text)[0].rstrip(".")


def keys() -> Iterator[tuple[str, str]]:
    """Yield each key with its default, or with its value for each choice that has it."""
    for key, value in general_settings().items():
        yield key, as_typed(value)
    for group, names in choices().items():
        yield group, " | ".join(names)
    for key, owners in choices_with().items():
        group = key.partition(".")[0]
        names = [owner.partition("=")[2] for owner in owners]
        by_value: dict[str, list[str]] = {}
        for name in names:
            by_value.setdefault(as_typed(settings_of_choice(group, name)[key]), []).append(name)
        if len(by_value) == 1 and len(names) == len(choices()[group]):
            yield key, next(iter(by_value))
            continue
        parts = [f"{value}  with {group}={'|'.join(found)}" for value, found in by_value.items()]
        yield key, "; ".join(parts)
