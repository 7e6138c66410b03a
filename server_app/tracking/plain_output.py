"""Text of records, printed for a person."""

from task.plain_text import escaped


def print_plain(text: str) -> None:
    """Print lines, each with a mark in place of what is not printable.

    So a record that somebody else has written cannot control the terminal.
    """
    print("\n".join(map(escaped, text.split("\n"))))
