"""A site's own log, on standard output."""

import logging
import sys
from collections.abc import Callable

from flwr.app import Context, Message

from client_app.node import simulated
from task.plain_text import PlainFormatter

logger = logging.getLogger("univarfl.client")


def write_site_log() -> None:
    """Send the log of this process's work to standard output."""
    if not logger.handlers:
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(PlainFormatter("%(asctime)s univarfl %(levelname)s %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False


def log_site_work(
    message: Message, context: Context, call_next: Callable[[Message, Context], Message]
) -> Message:
    """Send the worker's log to standard output on a site. A Flower mod.

    Simulated workers log nothing, because they are too many.
    """
    if not simulated(context.node_config):
        write_site_log()
    return call_next(message, context)
