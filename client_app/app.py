"""The ClientApp: registers itself, trains and scores clients, deletes the states of a run.

Flower's simulation imports this file before it starts Ray, in a process that answers no message. So
`client_app.handlers`, which imports PyTorch, is imported with the first message.
"""

from collections.abc import Callable

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from client_app.error_redaction import redact_errors
from client_app.kinds import HANDLERS, Handler
from client_app.logs import log_site_work

app = ClientApp(mods=[log_site_work, redact_errors])
CATEGORIES = {"query": app.query, "train": app.train, "evaluate": app.evaluate}


def answers(handler: Handler) -> Callable[[Message, Context], Message]:
    """Return the function that Flower calls for the messages of a kind."""

    def answer(message: Message, context: Context) -> Message:
        from client_app import handlers  # noqa: PLC0415  (it imports PyTorch)

        return handlers.answer(handler, message, context)

    return answer


for message_type, each in HANDLERS.items():
    category, _, action = message_type.partition(".")
    CATEGORIES[category](*filter(None, [action]))(answers(each))
