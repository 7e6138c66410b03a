"""When the devices of a run are available, and when their updates arrive, on a simulated clock."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from server_app.rounds.devices.profiles import DAY, HOUR, Profiles, Values
from task.data.dataset import Positions
from task.seeding import numpy_generator

UNAVAILABLE = "not available at this hour; participation=available asks those that are"
EVERYBODY = slice(None)
ROUNDING = 1e-6  # seconds after a device becomes available, so that rounding does not hide it


@dataclass(frozen=True)
class Attempt:
    """A client's attempt at training, as its device lets it end.

    Attributes:
        client: the client.
        ends: when its update arrives, or when the server knows that none will; seconds since the
            run began.
        seconds: how long it took.
        reason: why no update arrives; empty if one does.
    """

    client: int
    ends: float
    seconds: float
    reason: str = ""

    @property
    def arrives(self) -> bool:
        """Whether an update arrives."""
        return not self.reason


@dataclass(frozen=True)
class Devices:
    """The devices of a run's clients.

    An attempt takes the time to receive the model, to train on every image in every epoch, and to
    send the model. It depends on the seed, the client and the round alone.

    Attributes:
        profiles: what they can do.
        images: by client, the number of its training images.
        passes: over them, each as long as one of FedAvg.
        exchanged_bytes: what a client receives and sends.
        variation: standard deviation of the logarithm of an attempt's time.
        seed: the experiment's.
    """

    profiles: Profiles
    images: Positions
    passes: float
    exchanged_bytes: int
    variation: float
    seed: int

    def available(self, now: float) -> NDArray[np.bool_]:
        """Return whether each client's device is available, [K]."""
        # One array operation after another, without a remainder, which takes ten times as long.
        since, lasts = now % DAY - self.profiles.available_from, self.profiles.available_seconds
        return ((since >= 0) & (since < lasts)) | (since + DAY < lasts) | (lasts >= DAY)

    def next_available(self, now: float, clients: NDArray[Any] | None = None) -> float:
        """Return the first time from `now` on at which a device is available.

        Args:
            now: seconds since the run began.
            clients: whose devices, at least one: a mask [K] or numbers; None for all.
        """
        since = self._since_begin(now)
        waits = np.where(since < self.profiles.available_seconds, 0.0, DAY - since + ROUNDING)
        return now + float(waits.min() if clients is None else waits[clients].min())

    def usual_seconds(self, clients: int | slice = EVERYBODY) -> Values:
        """Return the duration of attempts without their variation: a number, or [K]."""
        profiles = self.profiles
        training = profiles.seconds_per_image[clients] * self.images[clients] * self.passes
        seconds: Values = training + self.exchanged_bytes / profiles.bytes_per_second[clients]
        return seconds

    def attempt(self, client: int, server_round: int, now: float) -> Attempt:
        """Return how a client's attempt ends that begins now.

        Args:
            client: the client.
            server_round: the round of the request; a client is asked once in a round.
            now: seconds since the run began.
        """
        since = float(self._since_begin(now, client))
        left = float(self.profiles.available_seconds[client])
        if since >= left:
            return Attempt(client, now, 0.0, UNAVAILABLE)
        left = np.inf if left >= DAY else left - since
        generator = numpy_generator(self.seed, "attempt", server_round, client)
        factor, lost, share = generator.standard_normal(), generator.random(), generator.random()
        seconds = float(self.usual_seconds(client)) * float(np.exp(self.variation * factor))
        if lost < self.profiles.dropout[client]:
            seconds *= share
            if seconds <= left:
                reason = f"dropped out after {seconds:.1f} simulated seconds"
                return Attempt(client, now + seconds, seconds, reason)
        if seconds > left:
            hour = (now + left) % DAY / HOUR
            reason = f"not available any more from hour {hour:.1f} of the day"
            return Attempt(client, now + left, left, reason)
        return Attempt(client, now + seconds, seconds)

    def _since_begin(self, now: float, clients: int | slice = EVERYBODY) -> Values:
        """Return the seconds since devices last became available, below `DAY`: one, or [K]."""
        since: Values = (now - self.profiles.available_from[clients]) % DAY
        return np.where(self.profiles.available_seconds[clients] >= DAY, 0.0, since)
