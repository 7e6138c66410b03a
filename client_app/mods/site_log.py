"""Writes a site's own log of the work that it does."""

from flwr.app import Context, Message
from flwr.clientapp.typing import ClientAppCallable

from client_app.logs import write_site_log
from client_app.node import simulated


def log_site_work(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Send the worker's log to standard output on a site. A Flower mod.

    Simulated workers log nothing, because they are too many.
    """
    if not simulated(context.node_config):
        write_site_log()
    return call_next(message, context)
