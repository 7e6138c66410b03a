"""The lines that a run prints: one per round, and the results at its end."""

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TextIO

from server_app.runs.records.readings import exact_scores, statistics_of
from server_app.runs.records.tables import CLIENTS, LEAST_IMAGES, PARQUET
from task.plain_text import escaped
from task.privacy.description import FROM_SYSTEM

CURVES = "curves.png"
NOT_LOSSES = (
    "clients", "epsilon", "failed", "learning_rate", "left_out", "seconds", "simulated_seconds",
    "staleness",
)  # fmt: skip

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
    parts += [f"{name} {value:.4f}" for name, value in train.items() if name not in NOT_LOSSES]
    if "epsilon" in train:
        parts.append(f"epsilon {train['epsilon']:.4f}")
    parts.append(f"clients {train['clients']:.0f}/{sampled}")
    parts.append(f"{train['seconds']:.1f} s")
    if "simulated_seconds" in train:
        parts.append(f"{train['simulated_seconds']:,.1f} simulated s")
    return "  ".join(parts)


def closing_lines(directory: Path, summary: Mapping[str, Any]) -> list[str]:
    """Return the last lines of a completed run: its results, and the paths of its files."""
    results, seconds = summary["results"], summary["seconds"]["rounds"]
    shown = [
        f"{split} {scores['accuracy']:.3f}"
        for split, scores in results.items()
        if "accuracy" in scores
    ]
    shared = ", the part that the clients share" if "personal" in summary else ""
    clients = PARQUET if (directory / PARQUET).exists() else CLIENTS
    privacy = [privacy_line(summary["privacy"])] if "privacy" in summary else []
    return [
        f"final accuracy: {', '.join(shown)} (the rounds took {seconds:.0f} s)",
        *statistics_lines(summary),
        *clients_line(summary.get("client_scores", {})),
        *privacy,
        f"record  {directory / 'run.json'}  rounds.csv  {clients}",
        f"model   {directory / 'model.safetensors'}{shared}",
        *parts_line(directory, summary.get("client_parts", 0)),
        *curves_line(directory),
    ]


def statistics_lines(summary: Mapping[str, Any]) -> list[str]:
    """Return the test accuracy with batch norm's statistics of all images, if it is another one."""
    scores = exact_scores(summary)
    if "accuracy" not in scores or statistics_of(summary["config"]) == "exact":
        return []
    return [f"with batch norm's statistics of all images: test {scores['accuracy']:.3f}"]


def curves_line(directory: Path) -> list[str]:
    """Return where the picture of the curves is; nothing if it could not be drawn."""
    path = directory / CURVES
    return [f"curves  {path}"] if path.exists() else []


def parts_line(directory: Path, parts: int) -> list[str]:
    """Return where the parts of the model that clients keep are; nothing if none is saved."""
    return [f"parts   {directory / 'clients'}, of {parts} clients"] if parts else []


def clients_line(spread: Mapping[str, Any]) -> list[str]:
    """Return how accuracy is spread over the clients; nothing if the server sees no scores."""
    if not spread:
        return []
    if not spread["clients"]:
        reason = f"none of them holds out {LEAST_IMAGES} images; raise data.validation_share"
        return [f"accuracy at the clients: not counted, because {reason}"]
    mean, deviation, worst = (spread[name] for name in ("mean", "deviation", "worst_tenth"))
    shown = f"mean {mean:.3f}, standard deviation {deviation:.3f}, worst tenth {worst:.3f}"
    few = spread["too_few_images"]
    of = f"of {spread['clients'] + few} clients"
    which = f"{of} (with {LEAST_IMAGES} held-out images or more)" if few else of
    return [f"accuracy at {spread['clients']} {which}: {shown}"]


def privacy_line(privacy: Mapping[str, Any]) -> str:
    """Return the privacy budget that a run has spent, or why it is unknown."""
    if "delta" not in privacy:
        return f"privacy {privacy['epsilon']}: {privacy['why']}"
    spent = f"epsilon {privacy['epsilon']:.2f} at delta {privacy['delta']:g}"
    study = "" if privacy["noise"] == FROM_SYSTEM else f"; the noise is {privacy['noise']}"
    return f"privacy {spent} for {privacy['unit']}{study}"
