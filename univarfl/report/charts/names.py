"""Names that fit into a picture: clipped, wrapped and measured."""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import count

import numpy as np
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextToPath

# Where a line may end: after a space or comma, else after another mark, else anywhere.
PARTS = (r"[^\s,]*[\s,]+|[^\s,]+", r"[^_/=-]*[_/=-]+|[^_/=-]+", ".")
SAMPLE, GAP = 2.8, 2.0  # of a legend, in font sizes: a line sample with its gap, between columns


def clipped(names: Sequence[str], length: int) -> list[str]:
    """Return names of at most `length` characters.

    A longer name loses its end. Names that would become equal keep the part where they differ, or,
    if that is in several places, get a number.
    """
    alike: dict[str, list[str]] = defaultdict(list)
    for name in names:
        alike[name[: length - 1]].append(name)
    same = {begin: shared(group) for begin, group in alike.items()}
    found: dict[str, str] = {}
    for name in names:
        short = name if len(name) <= length else shortened(name, length, same[name[: length - 1]])
        taken = {text for other, text in found.items() if other != name}
        marks = (f"…{number}" for number in count(2))
        while short in taken:
            mark = next(marks)
            short = name[: length - len(mark)] + mark
        found[name] = short
    return [found[name] for name in names]


def shared(names: Sequence[str]) -> int:
    """Return the number of characters with which all names begin."""
    first, last = min(names), max(names)
    pairs = zip(first, last, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), len(first))


def shortened(name: str, length: int, start: int) -> str:
    """Return a name in `length` characters, with an ellipsis for each part that is left out.

    Args:
        name: a longer name.
        length: the number of characters.
        start: the first character that differs from other names, which is kept; the length of the
            name if there is none.
    """
    if start == len(name):
        return f"{name[: length - 1]}…"
    head = length // 3
    kept = length - head - 1
    if start >= len(name) - kept:
        return f"{name[:head]}…{name[-kept:]}"
    return f"{name[:head]}…{name[start : start + kept - 1]}…"


def wrapped(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Return a text in lines that fit, broken at spaces and commas where possible.

    Args:
        text: the text.
        fits: whether a line fits; it must hold for each single character.
    """
    return [line.rstrip() for line in filled(" ".join(text.split()), fits, PARTS)]


def filled(text: str, fits: Callable[[str], bool], parts: Sequence[str]) -> list[str]:
    """Return a text in lines that fit, made of the matches of the first possible pattern."""
    lines: list[str] = []
    for part in re.findall(parts[0], text):
        if lines and fits((lines[-1] + part).rstrip()):
            lines[-1] += part
        elif fits(part.rstrip()):
            lines.append(part)
        else:
            lines += filled(part, fits, parts[1:])
    return lines


def room(figure: Figure) -> float:
    """Return the width in points that a line of text can have in a figure.

    It is less than the figure's, since a picture's resolution changes widths a little.
    """
    return 0.97 * 72 * figure.get_figwidth()


def width(text: str, size: float) -> float:
    """Return the width of a text in points, in the default font of this size."""
    found: float = TextToPath().get_text_width_height_descent(
        text, FontProperties(size=size), ismath=False
    )[0]
    return found


def legend_width(names: Sequence[str], columns: int, size: float) -> float:
    """Return the width of a legend in points, for a font size."""
    parts = [part for part in np.array_split(np.array(names), columns) if len(part)]
    texts = sum(max(width(str(name), size) for name in part) for part in parts)
    return texts + size * (SAMPLE * len(parts) + GAP * (len(parts) - 1))
