"""The way in which a run gathers its updates."""

from pathlib import Path

from server_app.aggregation.strategies.families.buffered import BufferedSettings
from server_app.rounds.context import RoundContext
from server_app.rounds.pace.base import Pace
from server_app.rounds.pace.buffered import Buffered
from server_app.rounds.pace.synchronous import Synchronous


def pace_of(context: RoundContext, directory: Path) -> Pace:
    """Return the way that the run's strategy needs.

    Args:
        context: the run.
        directory: its directory, for the weights that running jobs started from.
    """
    strategy = context.experiment.aggregation()
    if isinstance(strategy, BufferedSettings):
        return Buffered(context, strategy, directory)
    return Synchronous(context)
