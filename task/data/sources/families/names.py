"""The names of labels, domains and subjects: which are missing, and which are the same?

Every source of a user's own images passes its names through `names_of`, before a test set is drawn.
"""

import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from task.data.sources.base import cleaned
from task.errors import DataError

Kind = Literal["label", "domain", "subject"]
PLURAL = {"label": "classes", "domain": "domains"}
MISSING = {
    "#div/0!",
    "#n/a",
    "#name?",
    "#null!",
    "#ref!",
    "#value!",
    "-",
    "-1",
    "<na>",
    "?",
    "missing",
    "n/a",
    "na",
    "nan",
    "nat",
    "none",
    "null",
    "undefined",
}  # fmt: skip  (what programs write for a missing value)
MOST_NOTES = 3  # on one question
MOST_CHARACTERS = 60  # of a value in a message


class Names(NamedTuple):
    """One name for each image.

    Attributes:
        each: the name of each image.
        notes: messages for the user and the record.
    """

    each: list[str]
    notes: list[str]


def names_of(kind: Kind, values: Sequence[object], place: Callable[[int], str], cure: str) -> Names:
    """Return a clean name for each value.

    Blanks around a name and the form of its accents do not count. Labels and domains that differ in
    case or width are different names, with a note. Such subjects are one name, because a subject
    must not be both in training and in the test set.

    Args:
        kind: what is named.
        values: a text or a number for each image.
        place: returns where value i is stored, for messages.
        cure: what the user can do if a value is missing.

    Raises:
        DataError: a value is missing, is no text or number, or cannot be printed.
    """
    texts = [text_of(value) for value in values]
    clean = {text: cleaned(text) for text in dict.fromkeys(texts) if text is not None}
    for index, text in enumerate(texts):
        if text is None or not clean[text]:
            raise DataError(f"{place(index)}: {problem_of(kind, values[index], cure)}")
        if not clean[text].isprintable():
            what = f"the {kind} has characters that cannot be printed, {text!a}"
            raise DataError(f"{place(index)}: {what}; remove them")
    found = sorted(set(clean.values()))
    notes = shortened(f"{name} may be a missing {kind}" for name in found if is_doubtful(name))
    alike = spelled_alike(found)
    if kind == "subject":
        first = {name: group[0] for group in alike for name in group}
        clean = {text: first.get(name, name) for text, name in clean.items()}
    else:
        notes += shortened(f"{' and '.join(group)} are different {PLURAL[kind]}" for group in alike)
    spellings = Counter(clean.values())
    notes += shortened(
        f"{kind} {name} has {spellings[name]} spellings, which are taken as one"
        for name in sorted(spellings)
        if spellings[name] > 1
    )
    return Names([clean[text] for text in texts if text is not None], notes)


def text_of(value: object) -> str | None:
    """Return a value as text, or None if it is missing, or no single text or number."""
    missing = value is None or (isinstance(value, float) and math.isnan(value))
    return None if missing or isinstance(value, bytes | list | tuple | dict) else str(value)


def problem_of(kind: Kind, value: object, cure: str) -> str:
    """Return what is wrong with a value that is not used as a name."""
    if not isinstance(value, bytes | list | tuple | dict):
        return f"no {kind}; {cure}"
    what = f"the {kind} is {repr(value)[:MOST_CHARACTERS]}, not one text or number"
    one_hot = "; write the name of one class instead of a one-hot or multiple label"
    return what + (one_hot if kind == "label" else "")


def folded(name: str) -> str:
    """Return what names have in common that differ in case, width or blanks only."""
    text = unicodedata.normalize("NFKC", name).casefold()
    return " ".join(unicodedata.normalize("NFKC", text).split())


def spelled_alike(names: Iterable[str]) -> list[list[str]]:
    """Return the groups of two or more names that are equal if folded, each sorted."""
    groups: dict[str, list[str]] = {}
    for name in sorted(names):
        groups.setdefault(folded(name), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def is_doubtful(name: str) -> bool:
    """Return whether a name is what programs write for a missing value."""
    return folded(name) in MISSING


def shortened(notes: Iterable[str]) -> list[str]:
    """Return the first notes on a question, and how many there are more."""
    found = list(notes)
    left_out = len(found) - MOST_NOTES
    return found if left_out < 1 else [*found[:MOST_NOTES], f"{left_out} more notes of this kind"]
