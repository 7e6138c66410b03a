"""One participant's outcome in a round, and whether it counts."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ClientUpdate:
    """One participant's round.

    Attributes:
        client: its number in the experiment.
        site: where it was trained.
        device: what it was trained on; empty if that is not known.
        reason: why it does not count; empty if it does.
        examples: the number of images it was trained on.
        seconds: the duration of its training.
        losses: the mean of each loss term, unweighted.
        given_up: whether it does not count only because too few other clients succeeded.
        left_out: whether its simulated device made it miss the round, or its update was too old.
        staleness: server steps between the weights that it started from and those that it changed;
            None in a round that waits for its clients.
        simulated_seconds: the duration of its attempt on the virtual clock; None without one.
    """

    client: int
    site: str
    device: str = ""
    reason: str = ""
    examples: int = 0
    seconds: float = 0.0
    losses: Mapping[str, float] = field(default_factory=dict)
    given_up: bool = False
    left_out: bool = False
    staleness: int | None = None
    simulated_seconds: float | None = None

    @property
    def status(self) -> str:
        """How it ended, for the record."""
        return "ok" if self.accepted else "left out" if self.left_out else "failed"

    @property
    def accepted(self) -> bool:
        """Whether it counts in the aggregation."""
        return not self.reason
