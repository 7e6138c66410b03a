"""The ClientApp: registers itself, trains and scores clients, deletes the states of a run.

Flower's simulation imports this file before it starts Ray, in a process that answers no message. So
`client_app.handlers`, which imports PyTorch, is imported with the first message.
"""

import importlib

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import ClientAppCallable

from client_app.mods.error_redaction import redact_errors
from client_app.mods.site_log import log_site_work

HANDLERS = "client_app.handlers"

app = ClientApp(mods=[log_site_work, redact_errors])


def handler(name: str) -> ClientAppCallable:
    """Return a function that calls a handler of `HANDLERS`."""

    def handle(message: Message, context: Context) -> Message:
        answer: ClientAppCallable = getattr(importlib.import_module(HANDLERS), name)
        return answer(message, context)

    return handle


app.query()(handler("query"))
app.train()(handler("train"))
app.evaluate()(handler("evaluate"))
app.query("forget")(handler("forget"))
app.query("personal")(handler("personal"))
app.query("statistics")(handler("statistics"))
app.query("moments")(handler("moments"))
app.train("finetune")(handler("finetune"))
# The stages of a masked round, in their order.
app.query("keys")(handler("keys"))
app.query("shares")(handler("shares"))
app.train("report")(handler("masked_report"))
app.evaluate("score")(handler("masked_score"))
app.query("agree")(handler("agree"))
app.query("unmask")(handler("unmask"))
