"""What a site's own log says of the work that it does."""

import logging
import sys

from flwr.app import Context, Message
from flwr.clientapp.typing import ClientAppCallable

from client_app.node import simulated

logger = logging.getLogger("univarfl.client")


def logged(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """A Flower mod: a site writes down what it does, and when; simulated clients are too many."""
    if not simulated(context.node_config) and not logger.handlers:
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(logging.Formatter("%(asctime)s univarfl %(levelname)s %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
    return call_next(message, context)
