"""Writes a site's own log of the work that it does."""

import logging
import sys

from flwr.app import Context, Message
from flwr.clientapp.typing import ClientAppCallable

from client_app.node import simulated
from task.plain_text import PlainFormatter

logger = logging.getLogger("univarfl.client")


def log_site_work(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Send the worker's log to standard output on a site. A Flower mod.

    Simulated workers log nothing, because they are too many.
    """
    if not simulated(context.node_config) and not logger.handlers:
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(PlainFormatter("%(asctime)s univarfl %(levelname)s %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
    return call_next(message, context)
