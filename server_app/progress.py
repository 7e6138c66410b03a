"""What a person reads while a run goes on, and when it has ended."""

import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NOT_LOSSES = ("clients", "failed", "seconds")

logger = logging.getLogger("univarfl")


class ConsoleFormatter(logging.Formatter):
    """One line a message: no time, no traceback, and a word before what is not plain progress."""

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        return text if record.levelno == logging.INFO else f"{record.levelname.lower()}: {text}"


def show_progress() -> None:
    """Print the log's lines for a person, from here on, in this process."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(ConsoleFormatter())
    handler.addFilter(lambda record: record.name == logger.name)
    logger.handlers = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logging.getLogger("flwr").setLevel(logging.WARNING)  # our round line says what Flower's would


def round_line(
    server_round: int, rounds: int, scores: Mapping[str, Mapping[str, float]], sampled: int
) -> str:
    """One round as one line: accuracies, losses, clients and seconds."""
    train, validation, test = scores["train"], scores["validation"], scores["test"]
    parts = [f"round {server_round:>{len(str(rounds))}}/{rounds}"]
    if "accuracy" in test:
        parts.append(f"test {test['accuracy']:.3f}")
    if "accuracy" in validation:
        parts.append(f"validation {validation['accuracy']:.3f}")
    parts += [f"{name} {value:.4f}" for name, value in train.items() if name not in NOT_LOSSES]
    parts.append(f"clients {train['clients']:.0f}/{sampled}")
    parts.append(f"{train['seconds']:.1f} s")
    return "  ".join(parts)


def closing_lines(directory: Path, summary: Mapping[str, Any]) -> list[str]:
    """The end of a finished run: its result, and the paths of what it leaves."""
    results, seconds = summary["results"], summary["seconds"]["rounds"]
    shown = [
        f"{split} {scores['accuracy']:.3f}"
        for split, scores in results.items()
        if "accuracy" in scores
    ]
    privacy = [privacy_line(summary["privacy"])] if "privacy" in summary else []
    return [
        f"final accuracy: {', '.join(shown)} (the rounds took {seconds:.0f} s)",
        *privacy,
        f"record  {directory / 'run.json'}  rounds.csv  clients.csv",
        f"model   {directory / 'model.safetensors'}",
        f"curves  {directory / 'curves.png'}",
    ]


def privacy_line(privacy: Mapping[str, Any]) -> str:
    """What a run has spent in differential privacy, or why nobody can tell."""
    if "delta" not in privacy:
        return f"privacy {privacy['epsilon']}: {privacy['why']}"
    spent = f"epsilon {privacy['epsilon']:.2f} at delta {privacy['delta']:g}"
    return f"privacy {spent} for a client's updates, to whoever does not know the seed"
