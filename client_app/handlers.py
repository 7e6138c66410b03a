"""Answers to the messages of the ServerApp, in the time that it waits for them."""

import faulthandler
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from flwr.app import Context, Message

from client_app.admission import count_request
from client_app.kinds import Handler
from client_app.messages import read_request, write_reply
from client_app.session import Session
from task.registry import named
from task.site import IN_PROCESS, NodeConfig

GRACE_SECONDS = 30.0


def answer(handler: Handler, message: Message, context: Context) -> Message:
    """Read a request, work on it, and write the reply.

    Args:
        handler: answers messages of this kind.
        message: the message.
        context: the node's.
    """
    kind, node_config = named(handler.kind), context.node_config
    session = Session(read_request(kind, message, node_config), node_config, context.state)
    seconds = session.request.seconds if handler.in_time else 0.0
    with process_ended_after(seconds, node_config):
        if kind.counted and session.site is not None:
            parts = session.request.parts(session.worker.model)
            count_request(session.site, session.request, kind.message_type, parts)
        return write_reply(kind, named(handler.work)(session), message, node_config)


@contextmanager
def process_ended_after(seconds: float, node_config: NodeConfig) -> Iterator[None]:
    """End this process if its work takes `GRACE_SECONDS` longer than the server waits for it.

    The stack of each thread is written to standard error. The server notices the lost worker and
    stops the run after its last complete round; ``univarfl train`` then resumes it.

    A node that shares the process of the server is left alone, because the whole command
    would end with it.

    Args:
        seconds: how long the server waits; 0 for any time.
        node_config: the node's settings.
    """
    armed = bool(seconds) and not node_config.get(IN_PROCESS)
    if armed:
        faulthandler.dump_traceback_later(
            seconds + GRACE_SECONDS, exit=True, file=sys.__stderr__ or sys.stderr
        )
    try:
        yield
    finally:
        if armed:
            faulthandler.cancel_dump_traceback_later()
