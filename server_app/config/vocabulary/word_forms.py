"""Overrides in a wrong form, such as ``method fedavg`` or ``--method fedavg``."""

import re
from collections.abc import Sequence

from server_app.config.choices import choices
from server_app.config.vocabulary.keys import every_key, keys_meant_by
from server_app.config.vocabulary.suggestions import same
from task.errors import ConfigError
from task.plain_text import escaped

EQUALS = "="


def check_forms(words: Sequence[str]) -> None:
    """Refuse words that are not ``key=value`` if it is clear what to type instead.

    Raises:
        ConfigError: a word has a wrong form; the message has the right one.
    """
    for place, word in enumerate(words):
        after = [*words[place + 1 : place + 3], "", ""]
        typed, meant = read_form(word, after[0], after[1])
        if meant:
            raise ConfigError("override", typed, f"write {escaped(meant)}")


def read_form(word: str, second: str, third: str) -> tuple[str, str]:
    """Return what was typed and what it means, from a word and the two after it.

    The meaning is empty if the word has the right form, or cannot be understood.
    """
    if word.startswith("-"):
        return read_option(word, second)
    if word.startswith("~"):  # Hydra's sign for a removal
        return word, ""
    return read_assignment(word, second) if EQUALS in word else read_bare(word, second, third)


def read_assignment(word: str, after: str) -> tuple[str, str]:
    """Return what was typed and what it means, from a word with ``=``."""
    key, _, value = word.partition(EQUALS)
    if value.startswith(EQUALS):  # method==fedavg
        return word, f"{key}={value.lstrip(EQUALS)}"
    if not value and after and EQUALS not in after and (name := key_named(key)):  # method= fedavg
        return f"{word} {after}", f"{name}={after}, without a space"
    return word, ""


def read_bare(word: str, second: str, third: str) -> tuple[str, str]:
    """Return what was typed and what it means, from a word without ``=``."""
    name = key_named(word)
    if not name:
        return word, meaning_of_value(word)
    if second == EQUALS and third:  # method = fedavg
        return f"{word} = {third}", f"{name}={third}, without spaces"
    if second.startswith(EQUALS):  # method =fedavg
        return f"{word} {second}", f"{name}{second}, without a space"
    if second and EQUALS not in second and not second.startswith("-"):  # method fedavg
        return f"{word} {second}", f"{name}={second}"
    return word, f"{name}=VALUE"


def meaning_of_value(word: str) -> str:
    """Return the override that a word without a key means; empty if it is not clear."""
    if pair := re.fullmatch(r"([\w.]+):(.+)", word):  # method:fedavg
        return f"{key_named(pair[1])}={pair[2]}" if key_named(pair[1]) else ""
    groups = [(group, same(word, names)) for group, names in choices().items()]
    return " or ".join(f"{group}={found}" for group, found in groups if found)


def read_option(word: str, after: str) -> tuple[str, str]:
    """Return what was typed and what it means, from ``--key value`` or ``--key=value``.

    The meaning is empty if the option names no key.
    """
    key, sign, value = word.lstrip("-").partition(EQUALS)
    if not (name := key_named(key)):
        return word, ""
    if sign:
        return word, f"{name}={value}"
    if after and EQUALS not in after and not after.startswith("-"):
        return f"{word} {after}", f"{name}={after}"
    return word, f"{name}=VALUE"


def key_named(word: str) -> str:
    """Return the key that a word names in any spelling; empty if it names none, or several."""
    if word in every_key():
        return word
    meant = [key for key in keys_meant_by(word) if EQUALS not in key]
    return meant[0] if len(meant) == 1 else ""
