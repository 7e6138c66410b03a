"""The lines that a run prints on the console while it goes on."""

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TextIO

from server_app.runs.records.metrics import OF_ROUNDS
from task.plain_text import escaped

logger = logging.getLogger("univarfl")
chosen_handler: ContextVar[logging.Handler | None] = ContextVar("chosen_handler", default=None)


class ConsoleFormatter(logging.Formatter):
    """Formatter without time or traceback; the level comes first unless it is INFO."""

    def format(self, record: logging.LogRecord) -> str:
        text = "\n".join(map(escaped, record.getMessage().split("\n")))
        return text if record.levelno == logging.INFO else f"{record.levelname.lower()}: {text}"


class Shown(logging.Handler):
    """A handler that drops messages which cannot be shown: the terminal or the pipe is closed."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  (the library's name)
        """Report an error that is not of the output."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


class ConsoleHandler(Shown, logging.StreamHandler[TextIO]):
    """Prints messages."""


def show_progress() -> None:
    """Print the log of this process to the terminal from now on; see also `shown_by`."""
    handler = chosen_handler.get() or ConsoleHandler(sys.stdout)
    handler.setFormatter(ConsoleFormatter())
    handler.addFilter(is_for_people)
    logger.handlers = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    # Our own line has what Flower would log for each round.
    logging.getLogger("flwr").setLevel(logging.WARNING)


def is_for_people(record: logging.LogRecord) -> bool:
    """Return whether a log record is shown; those of the clients are not."""
    return record.name == logger.name


@contextmanager
def shown_by(handler: logging.Handler) -> Iterator[None]:
    """Show the log with another handler, and restore the loggers at the end.

    Args:
        handler: takes the place of the terminal.
    """
    flower = logging.getLogger("flwr")
    before = logger.handlers[:], logger.level, logger.propagate, flower.level
    token = chosen_handler.set(handler)
    try:
        show_progress()
        yield
    finally:
        chosen_handler.reset(token)
        logger.handlers[:], level, logger.propagate, flower_level = before
        logger.setLevel(level)
        flower.setLevel(flower_level)


def round_line(
    server_round: int, rounds: int, scores: Mapping[str, Mapping[str, float]], sampled: int
) -> str:
    """Return one round as one line: accuracies, losses, clients and seconds."""
    train, validation, test = scores["train"], scores["validation"], scores["test"]
    parts = [f"round {server_round:>{len(str(rounds))}}/{rounds}"]
    if "accuracy" in test:
        parts.append(f"test {test['accuracy']:.3f}")
    if "accuracy" in validation:
        parts.append(f"validation {validation['accuracy']:.3f}")
    parts += [f"{name} {value:.4f}" for name, value in train.items() if name not in OF_ROUNDS]
    if "epsilon" in train:
        parts.append(f"epsilon {train['epsilon']:.4f}")
    parts.append(f"clients {train['clients']:.0f}/{sampled}")
    parts.append(f"{train['seconds']:.1f} s")
    if "simulated_seconds" in train:
        parts.append(f"{train['simulated_seconds']:,.1f} simulated s")
    return "  ".join(parts)
