"""Interrupt a run in a given round, as a person does with Ctrl-C."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from server_app.rounds.callbacks import RecordRounds
from server_app.rounds.result import RoundResult


@contextmanager
def ended_in(round_: int) -> Iterator[None]:
    """Raise KeyboardInterrupt in that round, after some of its rows are written."""
    complete = RecordRounds.after_round

    def interrupted(self: RecordRounds, result: RoundResult) -> None:
        if result.round < round_:
            complete(self, result)
            return
        self._recorder.round(result.round, {"train": {"ce": 1.0}})
        raise KeyboardInterrupt

    with patch.object(RecordRounds, "after_round", interrupted):
        yield
