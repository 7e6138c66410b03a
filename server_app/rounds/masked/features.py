"""Features added up with masks: the server gets the sum over all clients."""

from collections.abc import Sequence

import torch
from torch import Tensor

from server_app.rounds.context import RoundContext
from server_app.rounds.errors import RunFailedError
from server_app.rounds.masked.after_training import NoSumError, Wanted, masked_total
from server_app.rounds.masked.summing import new_scope
from task.errors import ProtocolError
from task.protocol.after.sums import MOST_IMAGES, Form
from task.protocol.masking.messages import SUM_FEATURES

ATTEMPT, PURPOSE = 1, "features"
FAILED = "the features cannot be added up"


def masked_sums(
    context: RoundContext, clients: Sequence[int], form: Form
) -> tuple[Tensor, dict[int, str]]:
    """Return the sum over all clients' images, and who is not in it.

    Every image counts once: the sums are not weighted.

    Args:
        context: the run, in its last round or after it.
        clients: who is asked.
        form: of the sum.

    Raises:
        RunFailedError: fewer than the threshold are in the sum, or no images have it.
    """
    wanted = Wanted(SUM_FEATURES, form._asdict(), form.length, alike=True)
    scope = new_scope(context, context.experiment.rounds, ATTEMPT, PURPOSE)
    try:
        total = masked_total(context, scope, clients, context.model.weights, wanted)
        private = context.experiment.privacy.private
        told = sum(total.setup.counts[client] for client in total.survivors)
        images = MOST_IMAGES if private else told
        return form.check(torch.from_numpy(total.vector), images, private), total.missing
    except (NoSumError, ProtocolError) as error:
        raise RunFailedError(f"{FAILED}: {error}") from None
