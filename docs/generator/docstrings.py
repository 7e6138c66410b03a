"""Docstrings in Google's form, read for the pages: a summary, labelled lines, attributes."""

import inspect
import re
from textwrap import dedent
from types import ModuleType

from docs.generator.markdown import from_docstring

LABELS = (
    "Loss|Paper|Hooks|Client state|Extra upload|Extra compute|Extra memory|Source"  # of a method
)
LABELLED = re.compile(rf"(?:^|(?<=\.) )({LABELS}): ")
ATTRIBUTE = re.compile(r"^    (\w+): (.*(?:\n        .*)*)", re.MULTILINE)


def attributes(kind: type) -> dict[str, str]:
    """Return the text of each attribute in the docstrings of a class and of its bases."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        _, _, section = dedent(inspect.cleandoc(each.__doc__ or "")).partition("Attributes:\n")
        found |= {name: " ".join(text.split()) for name, text in ATTRIBUTE.findall(section)}
    return found


def summary(module: ModuleType, kind: type) -> str:
    """Return the first line of a module's docstring; of a class's if the module has none."""
    text = inspect.getdoc(module) or inspect.getdoc(kind) or kind.__name__
    return from_docstring(text).splitlines()[0]


def details(module: ModuleType) -> str:
    """Return the rest of a module's docstring as Markdown: labelled lines, then paragraphs."""
    _, _, rest = (inspect.getdoc(module) or "").partition("\n")
    blocks = [block for block in rest.strip().split("\n\n") if block]
    return "\n\n".join(map(paragraph, blocks))


def paragraph(text: str) -> str:
    """Return one paragraph of a docstring as Markdown, its labelled parts as a list."""
    if text.startswith("* "):
        items = [" ".join(item.split()) for item in re.split(r"^\* ", text, flags=re.M) if item]
        return "\n".join(f"- {from_docstring(item)}" for item in items)
    parts = LABELLED.split(" ".join(text.split()))
    lead, labelled = parts[0], list(zip(parts[1::2], parts[2::2], strict=True))
    lines = [f"- **{label}**: {value_of(label, value)}" for label, value in labelled]
    return "\n".join([from_docstring(lead), *lines]).strip()


def value_of(label: str, value: str) -> str:
    """Return the text behind a label; a loss is a formula, and formulas are code."""
    if label == "Loss" and "`" not in value:
        return f"`{value.rstrip('.')}`"
    return from_docstring(value)
