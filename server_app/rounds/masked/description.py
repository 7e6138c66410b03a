"""What the record says of masked rounds."""

from typing import Any

from server_app.config.experiment import Experiment

LEARNS = (
    "the sum of the updates, of the losses and of the validation scores of each round",
    "which clients took part in each round, on how many images and for how long",
)
LEARNS_WITH_NOISE = (
    "the sum of the updates of each round, with the noise of all participants",
    "which clients took part in each round, and for how long",
)
SIMULATED = (
    "all keys are on one machine, and random rounding follows from the seed, so that this run "
    "protects nobody: it shows the protocol, its cost and its results"
)
AT_SITES = (
    "each site has its own keys, and computes the threshold from its own roster; the coordinator's "
    "program does not see them"
)


def described(experiment: Experiment) -> dict[str, Any]:
    """Return the settings of masked rounds, what the coordinator learns, and where the keys are."""
    learns = LEARNS_WITH_NOISE if experiment.privacy.private else LEARNS
    count, secure = experiment.participants, experiment.secure
    return {
        "threshold": experiment.secure_threshold(count),
        "colluding": experiment.most_colluding(count),
        "rounding": secure.rounding,
        "max_share": secure.max_share,
        "max_norm": secure.max_norm,
        "coordinator_learns": list(learns),
        "keys": AT_SITES if experiment.partitioner().sites else SIMULATED,
    }
