"""Having the workers delete what they keep for a run: after it is recorded as completed."""

import logging
from typing import Any

from server_app.flower.internals import GRID_ERRORS
from server_app.nodes.messages import Exchange, Letter
from server_app.rounds.context import RoundContext
from task.error_messages import describe_error
from task.protocol.registration import FORGET, ForgetRequest

FORGET_SECONDS = 60.0

logger = logging.getLogger("univarfl")


def delete_client_states(context: RoundContext) -> None:
    """Have the connected workers delete the clients' states; every site keeps something.

    A run that is resumed needs the states, so no run may need them any more. If the grid is gone,
    they stay.
    """
    experiment, run = context.experiment, context.run
    if not (context.sites or experiment.models_kept):
        return
    fields: dict[str, Any] = {
        "run": run.id, "experiment": run.experiment, "fingerprint": run.fingerprint,
        "round": experiment.rounds, "seconds": FORGET_SECONDS,
    }  # fmt: skip
    try:
        letters = [
            Letter(node.node_id, ForgetRequest(**fields), node.public_key)
            for node in context.nodes.connected()
        ]
        simulated = not context.sites
        Exchange(context.grid, FORGET, letters, FORGET_SECONDS, simulated).replies()
    except GRID_ERRORS as error:
        logger.warning(
            "the workers could not delete the clients' states: %s", describe_error(error)
        )
