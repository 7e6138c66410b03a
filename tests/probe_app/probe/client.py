"""A client that answers, counts, changes its input, raises or sleeps, as the order says."""

import time
from typing import cast

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.query()
def query(message: Message, context: Context) -> Message:
    """Count this SuperNode's queries in its state; fail after counting if the order says so."""
    seen = cast(int, context.state.config_records.get("seen", ConfigRecord({"n": 0}))["n"]) + 1
    context.state["seen"] = ConfigRecord({"n": seen})
    order = message.content.config_records["order"]
    order["altered"] = True
    if order["fail"]:
        raise RuntimeError("boom")
    time.sleep(cast(float, order["sleep"]))
    answer = ConfigRecord({"seen": seen, "seat": context.node_config["partition-id"]})
    return Message(RecordDict({"answer": answer}), reply_to=message)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Send the content back."""
    return Message(message.content, reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Send the content back."""
    return Message(message.content, reply_to=message)
