"""The interface of those who watch a run, and the one way to tell them."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Self

from server_app.experiment import Experiment

Scores = Mapping[str, Mapping[str, float]]

logger = logging.getLogger("univarfl")


class Watcher(ABC):
    """Someone who is shown every round's metrics."""

    package: ClassVar[str]

    @classmethod
    @abstractmethod
    def wanted(cls, experiment: Experiment) -> bool:
        """Whether this experiment is to be watched so."""

    @classmethod
    @abstractmethod
    def begin(cls, directory: Path, summary: Mapping[str, Any]) -> Self:
        """Begin to watch a run, whose ``run.json`` is `summary`."""

    @abstractmethod
    def round(self, server_round: int, scores: Scores) -> None:
        """Take one round's metrics, by split."""

    @abstractmethod
    def end(self, status: str) -> None:
        """The run has ended: ``completed`` or ``failed``."""


class Audience:
    """All who watch a run. One who fails is told of and watches no more; the run goes on."""

    def __init__(self, kinds: Iterable[type[Watcher]]) -> None:
        self._kinds = list(kinds)
        self._watchers: list[Watcher] = []

    def begin(self, directory: Path, summary: Mapping[str, Any]) -> None:
        """Let everyone begin."""
        for kind in self._kinds:
            try:
                self._watchers.append(kind.begin(directory, summary))
            except Exception as error:
                tell(kind, error)

    def round(self, server_round: int, scores: Scores) -> None:
        """Show everyone a round."""
        for watcher in list(self._watchers):
            try:
                watcher.round(server_round, scores)
            except Exception as error:
                self._watchers.remove(watcher)
                tell(type(watcher), error)
                with suppress(Exception):
                    watcher.end("failed")

    def end(self, status: str) -> None:
        """Tell everyone that it is over."""
        for watcher in self._watchers:
            try:
                watcher.end(status)
            except Exception as error:
                tell(type(watcher), error)


def tell(kind: type[Watcher], error: Exception) -> None:
    """Say that someone has stopped to watch."""
    lines = str(error).splitlines() or [""]
    logger.warning("%s takes no more metrics: %s: %s", kind.package, type(error).__name__, lines[0])
