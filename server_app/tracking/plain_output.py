"""Text of records, printed for a person."""

from typing import TextIO

from task.plain_text import escaped


def print_plain(text: str, stream: TextIO | None = None) -> None:
    """Print lines, each with a mark in place of what is not printable.

    So a record that somebody else has written cannot control the terminal.

    Args:
        text: the lines.
        stream: where to print; None for standard output.
    """
    print("\n".join(map(escaped, text.split("\n"))), file=stream)
