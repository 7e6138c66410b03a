"""What the record says of privacy for each training image."""

from typing import Any

from task.privacy.accounting import ACCOUNTANT, SampledGaussian, pld_epsilon
from task.privacy.settings import Privacy

UNIT = "one training image of one client, added or removed"
OUTSIDE = (
    "which clients took part or failed, the reasons, and the training times",
    "settings that were chosen by looking at the same images in other runs",
    "images that several clients hold, or several images of one person: their epsilons add up",
    "the rounding of gradients in float32, before they are clipped and summed in float64",
)


def example_privacy(privacy: Privacy, epochs: int, rounds: int) -> dict[str, Any]:
    """Return the privacy spent on each image of a client that took part in every round."""
    described = {"unit": UNIT, "rounds": rounds}
    if not privacy.noise_multiplier:
        spent = {"epsilon": "not accounted", "why": "without noise, epsilon is infinite"}
        return {**described, **spent, "outside": list(OUTSIDE)}
    steps = privacy.steps(epochs) * rounds
    training = SampledGaussian(privacy.noise_multiplier, privacy.sampling_rate, steps)
    return {
        **described,
        "epsilon": pld_epsilon((training,), privacy.delta),
        "delta": privacy.delta,
        "accountant": ACCOUNTANT,
        "outside": list(OUTSIDE),
    }
