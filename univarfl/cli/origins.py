"""Where each value of an experiment comes from: a file of ``conf/``, or a typed override."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from server_app.config.choices import choices, files_in
from server_app.config.chosen_files import chosen_files
from server_app.config.conf_settings import (
    general_settings,
    settings_of_choice,
    settings_of_file,
)
from server_app.config.override_text import flat
from server_app.config.overrides import read_override
from univarfl.records.published import listed_choices

TYPED, DEFAULT = "override", "default"


class Origin(NamedTuple):
    """One value of an experiment, and where it comes from."""

    key: str
    value: Any
    source: str


def origins(words: Sequence[str], config: Mapping[str, Any]) -> Iterator[Origin]:
    """Yield every value of an experiment with its source.

    Args:
        words: the overrides.
        config: the experiment that they compose, as plain values.
    """
    overrides = [read_override(word) for word in words]
    typed = {override.key for override in overrides}
    _, chosen = chosen_files(overrides)
    for key, value in flat(config).items():
        group, _, last = key.partition(".")
        if key in typed or (last == "name" and group in typed):
            source = TYPED
        else:
            source = source_of(key, chosen)
        if reference := referred(key, chosen):
            source = f"{source}: the value of {reference}"
        yield Origin(key, value, source)


def source_of(key: str, chosen: Mapping[str, Sequence[str]]) -> str:
    """Return the file that sets a value which nobody typed; ``default`` for ``config.yaml``.

    Of several files, that of the group which ``config.yaml`` lists last decides.
    """
    group, _, last = key.partition(".")
    setting = group if last == "name" else key
    for other in reversed([listed for listed in listed_choices() if listed in chosen]):
        for name in chosen[other]:
            own = other == group and last != "name" and key in settings_of_choice(group, name)
            if own or (other != setting and sets(other, name, setting)):
                return place(other, name)
    return DEFAULT if setting in general_settings() or group in choices() else "conf"


def sets(group: str, name: str, key: str) -> bool:
    """Return whether a file of ``conf/`` sets a general key, or chooses the file of a group."""
    file = files_in(group)[name]
    text = file.read_text()
    if not text.startswith("# @package _global_"):
        return False
    return key in settings_of_file(file) or f"override /{key}:" in text


def referred(key: str, chosen: Mapping[str, Sequence[str]]) -> str:
    """Return the key whose value a setting takes, as ``partition.alpha`` takes that of alpha."""
    group = key.partition(".")[0]
    for name in chosen.get(group, ()):
        value = str(settings_of_choice(group, name).get(key, ""))
        if value.startswith("${") and value.endswith("}") and ":" not in value:
            return value[2:-1]
    return ""


def place(group: str, name: str) -> str:
    """Return a file of ``conf/`` as people name it."""
    return f"conf/{group}/{name}.yaml"
