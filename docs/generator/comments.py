"""The comments of the YAML files in ``conf/``: what a file is for, and what each key means."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path

import yaml

EXAMPLES = ("Example", "Examples")
DIRECTIVE = "@package"


@dataclass(frozen=True)
class Key:
    """A key of a YAML file: its dotted name, its default as written, and its comment."""

    name: str
    default: str
    comment: str


@dataclass(frozen=True)
class File:
    """A YAML file: the text at its head, the example commands there, and its keys."""

    about: str
    examples: list[str]
    keys: dict[str, Key]


@cache
def read_file(path: Path) -> File:
    """Read the comments and keys of a YAML file."""
    lines = path.read_text().splitlines()
    head = [line.removeprefix("#").strip() for line in takewhile(is_comment, lines)]
    head = [line for line in head if not line.startswith(DIRECTIVE)]
    start = next((at for at, line in enumerate(head) if line.startswith(EXAMPLES)), len(head))
    node = yaml.compose(path.read_text(), Loader=yaml.SafeLoader)
    found = keys(node, lines, "") if isinstance(node, yaml.MappingNode) else ()
    return File(" ".join(head[:start]), example_commands(head[start:]), {k.name: k for k in found})


def is_comment(line: str) -> bool:
    """Return whether a line holds a comment alone."""
    return line.lstrip().startswith("#")


def example_commands(lines: list[str]) -> list[str]:
    """Return the commands that follow ``Example:`` at the head of a file."""
    text = "\n".join(lines).replace("\\\n", " ")
    found = [line.partition(": ")[2] if ": " in line else line for line in text.splitlines()]
    return [" ".join(line.split()) for line in found if line.strip().startswith("univarfl ")]


def keys(node: yaml.MappingNode, lines: list[str], prefix: str) -> Iterator[Key]:
    """Yield the keys below a node, with dotted names; ``defaults`` is Hydra's and left out."""
    for name, value in node.value:
        if isinstance(value, yaml.MappingNode):
            yield from keys(value, lines, f"{prefix}{name.value}.")
        elif is_on_one_line(value) and name.value != "defaults":
            line = lines[value.end_mark.line]
            default = line[value.start_mark.column : value.end_mark.column].strip()
            comment = line[value.end_mark.column :].strip().removeprefix("#").strip()
            for below in takewhile(is_continued, lines[value.end_mark.line + 1 :]):
                comment += f" {below.strip().removeprefix('#').strip()}"
            yield Key(f"{prefix}{name.value}", default, comment)


def is_on_one_line(value: yaml.Node) -> bool:
    """Return whether a value is written in the line of its key, as scalars and ``[]`` are."""
    return bool(value.start_mark.line == value.end_mark.line)


def is_continued(line: str) -> bool:
    """Return whether a line continues the comment of the key above it."""
    return line.startswith(" ") and is_comment(line)
