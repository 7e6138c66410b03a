"""Answers to the messages of the ServerApp."""

from flwr.app import Context, Message

from client_app.admission import count_request
from client_app.kinds import Handler
from client_app.messages import read_request, write_reply
from client_app.session import Session
from client_app.watchdog import process_ended_after
from task.registry import named


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
