"""Text from another machine, made fit for a console, a log, a table or a page.

`one_line` is the one place that does it. Everything that a site or a coordinator writes passes it,
or is a `task.protocol.base.Line`, which refuses what `one_line` would have to change.
"""

import copy
import logging

MAX_LINE = 1000
MAX_MESSAGE = 10_000
UNREADABLE = "?"


def printable(text: str) -> str:
    """Refuse text that could forge a line of a log, or hide what it says.

    Raises:
        ValueError: a character is not printable: a control character, a line end, a change of the
            writing direction, or half of a surrogate pair.
    """
    if not text.isprintable():
        raise ValueError("must be printable, on one line")
    return text


def one_line(text: str, most: int = MAX_LINE) -> str:
    """Return any text as one printable line of at most `most` characters."""
    joined = " ".join(text[: 4 * most].split())
    return escaped(joined[:most])


def escaped(text: str) -> str:
    """Return the text with `UNREADABLE` in place of each character that is not printable."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else UNREADABLE for c in text)


class PlainFormatter(logging.Formatter):
    """Formatter whose messages take one line each; the lines of a traceback are indented.

    So no text in a message or in an exception can look like a line of the log.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as text; an exception that another formatter wrote is written again."""
        record = copy.copy(record)
        if record.exc_info:
            record.exc_text = None
        elif record.exc_text:  # that of another process
            record.exc_text = indented(record.exc_text)
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (the library's name)
        """Return the message on one line; spaces, which align columns, stay."""
        text = " ".join(super().formatMessage(record)[:MAX_MESSAGE].splitlines())
        return escaped(text)

    def formatException(self, ei) -> str:  # type: ignore[no-untyped-def]  # noqa: ANN001, N802
        """Return a traceback, each line indented and escaped."""
        return indented(super().formatException(ei))


def indented(traceback: str) -> str:
    """Return a traceback, each line indented and escaped."""
    return "\n".join(f"    {escaped(line[:MAX_MESSAGE])}" for line in traceback.splitlines())
