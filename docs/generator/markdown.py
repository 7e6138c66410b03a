"""Markdown text made from docstrings, comments and rows of tables."""

import re
from collections.abc import Iterable, Sequence

CODE = re.compile(r"(`[^`]*`)")
SPECIAL = re.compile(r"([*_<\\\[])")


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; bars and line breaks in its cells are escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(cell, line))} |" for line in lines)


def cell(text: str) -> str:
    """Return text that fits into one cell of a table."""
    return " ".join(text.split()).replace("|", r"\|")


def code(text: str) -> str:
    """Return text as inline code; empty text stays empty."""
    return f"`{text}`" if text else ""


def from_docstring(text: str) -> str:
    """Return the text of a docstring or comment as Markdown, with other special signs escaped."""
    parts = CODE.split(text.replace("``", "`"))
    return "".join(part if CODE.fullmatch(part) else SPECIAL.sub(r"\\\1", part) for part in parts)
