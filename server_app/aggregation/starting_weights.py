"""The global weights before the first round, if ``model.weights`` names their file."""

from collections.abc import Mapping

from torch import Tensor

from server_app.config.file_hash import require_unchanged
from task.given_weights import EXPECTED, KEY, GivenWeights
from task.training.starting_weights import StartingWeights, read_weights


def starting_weights(given: GivenWeights, initial: Mapping[str, Tensor]) -> StartingWeights:
    """Return the weights that a run with ``model.weights`` starts from.

    Args:
        given: the file.
        initial: the network's initial weights, drawn from the seed.

    Raises:
        ConfigError: the file has changed, cannot be read, or has other layers than the network.
    """
    require_unchanged(KEY, given.path, given.sha256, EXPECTED)
    return read_weights(given, initial)
