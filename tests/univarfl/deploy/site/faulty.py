"""A fork server whose children do what a message tells them, such as to crash."""

import json
import os
import signal
import socket
import time
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, RecordDict

from client_app.app import app
from client_app.masked.party import restore_secrets, secrets_of
from task.protocol.envelope import Request
from task.site import NodeConfig
from task.training.worker import shared_worker
from univarfl.deploy.site import answering, fork_server, frames

ORDER = "query.order"
announce = answering.announce


@app.query("order")
def obey(message: Message, context: Context) -> Message:
    match message.content["order"]["do"]:
        case "keep":
            restore_secrets(context.state, b"a secret")
        case "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "exit":
            os._exit(3)
        case "raise":
            raise OSError("/secret/place/Jane_Doe.png is missing")
        case "hang":
            time.sleep(600)
        case "grow":
            grown = []
            while True:
                grown.append(bytearray(os.urandom(1) * 20_000_000))
                time.sleep(0.01)
    facts: dict[str, int | str] = {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "loaded": shared_worker.cache_info().currsize,
        "secrets": secrets_of(context.state).decode(),
        "score": Path("/proc/self/oom_score_adj").read_text().strip(),
    }
    return Message(RecordDict({"facts": ConfigRecord({**facts})}), reply_to=message)


def announce_order(channel: socket.socket, message: Message, node_config: NodeConfig) -> Request:
    """Announce an order, whose request has no fields."""
    if message.metadata.message_type != ORDER:
        return announce(channel, message, node_config)
    seconds = message.content["order"]["seconds"]
    facts = {"run": "run", "seconds": seconds, "other_code": ""}
    channel.sendall(frames.pack(frames.FACTS, json.dumps(facts).encode()))
    return Request.model_construct()


if __name__ == "__main__":
    answering.announce = announce_order
    fork_server.main()
