"""A person who ends a run in a given round."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from server_app.federation import Federation


@contextmanager
def ended_in(round_: int) -> Iterator[None]:
    """Ctrl-C in that round, when its rows are half written."""
    whole = Federation._round

    def broken(self: Federation, server_round: int) -> dict[str, dict[str, float]]:
        if server_round < round_:
            return whole(self, server_round)
        self.recorder.round(server_round, {"train": {"ce": 1.0}})
        raise KeyboardInterrupt

    with patch.object(Federation, "_round", broken):
        yield
