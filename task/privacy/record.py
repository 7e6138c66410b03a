"""What the record says of noise that clients add."""

import math
from collections.abc import Sequence
from typing import Any

from task.privacy.accounting import ACCOUNTANT, cost_of_training, pld_epsilon
from task.privacy.settings import Privacy
from task.privacy.zcdp import gaussian_rho, zcdp_epsilon

UNIT = "one training image of one client, added or removed"
OUTSIDE = (
    "which clients took part or failed, the reasons, and the training times",
    "settings that were chosen by looking at the same images in other runs",
    "images that several clients hold, or several images of one person: their epsilon is larger",
    "the rounding of gradients in float32, before they are clipped and summed in float64",
)
OUTSIDE_SUMS = (
    *OUTSIDE[:3],
    "the network before the classifier, if it was trained on the same images",
    "features that depend on the other images of a batch, if a device computes them so",
)

CLIENT = "all data of one client, compared with an update of zeros in its place"
ZCDP = "zCDP of discrete Gaussian noise; sampling of clients lowers nothing"
OUTSIDE_CLIENT = (
    "which clients took part or failed, the reasons, and the training times",
    "settings that were chosen by looking at the same data in other runs",
    "more colluding participants than secure.colluding: each can reveal its part of the noise",
)
NO_NOISE = {"epsilon": "not accounted", "why": "without noise, epsilon is infinite"}


def example_privacy(
    privacy: Privacy, epochs: int, rounds: int, outside: Sequence[str] = OUTSIDE
) -> dict[str, Any]:
    """Return the privacy spent on each image of a client that took part in every round.

    Args:
        privacy: the settings.
        epochs: of local training.
        rounds: with every repeated attempt at a round.
        outside: what epsilon does not cover.
    """
    described = {"unit": UNIT, "rounds": rounds}
    if not privacy.noise_multiplier:
        return {**described, **NO_NOISE, "outside": list(outside)}
    training = cost_of_training(privacy, epochs)
    training = training._replace(steps=training.steps * rounds)
    return {
        **described,
        "epsilon": pld_epsilon((training,), privacy.delta),
        "delta": privacy.delta,
        "accountant": ACCOUNTANT,
        "outside": list(outside),
    }


def client_privacy(privacy: Privacy, rounds: int, asked: int, honest: int) -> dict[str, Any]:
    """Return the privacy spent on all data of the client that was asked most often.

    Args:
        privacy: the settings.
        rounds: how often it was asked, repeated attempts included.
        asked: the number of participants that a round asks.
        honest: with the noise of how many of them the cost is computed.
    """
    described = {"unit": CLIENT, "rounds": rounds}
    if not privacy.noise_multiplier:
        return {**described, **NO_NOISE, "outside": list(OUTSIDE_CLIENT)}
    return {
        **described,
        "epsilon": zcdp_epsilon(gaussian_rho(privacy.noise_multiplier, rounds), privacy.delta),
        "delta": privacy.delta,
        "accountant": ZCDP,
        "added": (
            f"accounted with the noise of {honest} participants; if all {asked} answer, the "
            f"noise is {math.sqrt(asked / honest):.2f} times that"
        ),
        "outside": list(OUTSIDE_CLIENT),
    }
