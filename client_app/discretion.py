"""What a site tells of an error: enough to act on, and nothing of its own files.

An error's text may hold paths, file names and class names of a site. It goes to the site's own log.
The coordinator learns which site it was, and the text only of errors that are ours and hold none.
"""

import logging

from flwr.app import Context, Message
from flwr.clientapp.typing import ClientAppCallable

from client_app.node import simulated
from client_app.request import CodeMismatchError, RequestError
from task.errors import DeviceError, SiteError, TrainingError
from task.site import NodeConfig, name_of

HARMLESS = (DeviceError, RequestError, SiteError, TrainingError)

logger = logging.getLogger("univarfl.client")


def told(error: Exception, text: str, node_config: NodeConfig) -> str:
    """The text that describes an error if the coordinator may read it, else whose log has it."""
    if simulated(node_config) or isinstance(error, HARMLESS):
        return text
    name = name_of(node_config)
    if isinstance(error, CodeMismatchError):
        return f"site {name} runs other code than the coordinator; its own log says which"
    return f"site {name} failed; its own log says why"


def discreet(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """A Flower mod: no exception leaves a site with a text that the coordinator may not read.

    Raises:
        SiteError: in place of the exception.
    """
    try:
        return call_next(message, context)
    except Exception as error:
        text = told(error, str(error), context.node_config)
        if text == str(error):
            raise
        logger.exception("a message could not be answered")
        raise SiteError(text) from None
