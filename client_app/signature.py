"""What every reply says of itself, so that a server takes it for nothing else."""

from flwr.app import ConfigRecord, Context, Message
from flwr.clientapp.typing import ClientAppCallable

from task import wire
from task.fingerprint import fingerprint


def signed(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """A Flower mod: a reply names the run and round that it answers, and the code that made it."""
    reply = call_next(message, context)
    asked = message.content.config_records[wire.REQUEST]
    reply.content[wire.ABOUT] = ConfigRecord(
        {"run": asked["run"], "round": asked["round"], "fingerprint": fingerprint()}
    )
    return reply
