"""Decides which error texts a site shares with the coordinator.

An error's text may hold paths, file names and class names of a site. It goes to the site's own
log. The coordinator learns which site failed. It reads the text only of those of our own errors
that hold no such names.
"""

import logging
from collections.abc import Callable

from flwr.app import Context, Message

from client_app.node import simulated
from task.error_messages import describe_error
from task.errors import CodeMismatchError, DeviceError, ProtocolError, SiteError, TrainingError
from task.plain_text import one_line
from task.site import NodeConfig, site_name

SHARED_ERRORS = (DeviceError, ProtocolError, SiteError, TrainingError)

logger = logging.getLogger("univarfl.client")


def may_be_shared(error: Exception, node_config: NodeConfig) -> bool:
    """Return whether the server may read an error's text."""
    return simulated(node_config) or isinstance(error, SHARED_ERRORS)


def reason_for_server(error: Exception, node_config: NodeConfig) -> str:
    """Return the text about an error that the server may read, on one line."""
    if may_be_shared(error, node_config):
        return one_line(describe_error(error))
    name = site_name(node_config)
    if isinstance(error, CodeMismatchError):
        return one_line(f"site {name} runs other code than the coordinator; see the site's log")
    return one_line(f"site {name} failed; see the site's log for the reason")


def redact_errors(
    message: Message, context: Context, call_next: Callable[[Message, Context], Message]
) -> Message:
    """Replace the text of an exception that the coordinator may not read. A Flower mod.

    Raises:
        SiteError: in place of the exception.
    """
    try:
        return call_next(message, context)
    except Exception as error:
        if may_be_shared(error, context.node_config):
            raise
        logger.exception("a message could not be answered")
        raise SiteError(reason_for_server(error, context.node_config)) from None
