"""What a child process does: it reads one message, runs the ClientApp on it, and sends the reply.

The ClientApp is the installed one. A message is read here and nowhere else, so that one that breaks
its reader costs this process alone.
"""

import json
import logging
import socket

from flwr.app import Context, Message

from client_app.app import app
from client_app.error_redaction import may_be_shared, reason_for_server
from client_app.kinds import HANDLERS
from client_app.logs import write_site_log
from client_app.masked.party import restore_secrets, secrets_of
from client_app.messages import read_request
from task.errors import CodeMismatchError, ProtocolError
from task.fingerprint import fingerprint_for
from task.protocol.envelope import Request
from task.protocol.packed import Packed
from task.protocol.registration import REGISTER, RegistrationReply, RegistrationRequest
from task.registry import named
from task.site import NodeConfig
from univarfl.deploy.site import frames
from univarfl.deploy.site.internals import pack_reply, read_task

Task = tuple[bytes, str, dict[str, bytes]]  # its input, its message's id and its objects

logger = logging.getLogger("univarfl.client")


def answer(channel: socket.socket) -> None:
    """Answer the message that arrives on a channel."""
    write_site_log()
    received = receive_task(channel)
    if received is None:
        return
    task, secrets = received
    try:
        message, context = read_task(*task)
        restore_secrets(context.state, secrets)
    except Exception:
        logger.exception("a message could not be read")
        channel.sendall(frames.pack(frames.FAILED, b"a message could not be read"))
        return
    try:
        request = announce(channel, message, context.node_config)
        reply = app(message, context)
        channel.sendall(frames.pack(frames.SECRETS, secrets_of(context.state)))
        packed = pack_reply(reply)
    except Exception as error:
        reason = reason_for_server(error, context.node_config)
        logger.error("%s", reason, exc_info=not may_be_shared(error, context.node_config))
        channel.sendall(frames.pack(frames.FAILED, reason.encode()))
        return
    for object_id, content in packed.objects.items():
        channel.sendall(frames.pack_object(object_id, content))
    channel.sendall(frames.pack(frames.REPLY, packed.request))
    wish = worth_loading(request, reply, context)
    channel.sendall(frames.pack(frames.DONE, wish))


def receive_task(channel: socket.socket) -> tuple[Task, bytes] | None:
    """Receive a task, and the secrets of the run's last process; None if the worker has ended."""
    inbox = frames.Inbox()
    task_input, object_id, objects, secrets = b"", "", {}, b""
    while (frame := frames.receive(channel, inbox)) is not None:
        if frame.kind == frames.INPUT:
            task_input = frame.data
        elif frame.kind == frames.OBJECT_ID:
            object_id = frame.data.decode()
        elif frame.kind == frames.OBJECT:
            name, content = frames.unpack_object(frame.data)
            objects[name] = content
        elif frame.kind == frames.SECRETS:
            secrets = frame.data
        else:
            return (task_input, object_id, objects), secrets
    return None


def announce(channel: socket.socket, message: Message, node_config: NodeConfig) -> Request:
    """Read the request, tell the worker what it needs of it, and compare the code.

    A registration is answered in any case: its reply says that the code differs.

    Raises:
        CodeMismatchError: the coordinator runs other code than this site.
        ProtocolError: the message is none of this project's.
    """
    handler = HANDLERS.get(message.metadata.message_type)
    if handler is None:
        raise ProtocolError("a message of an unknown kind")
    kind = named(handler.kind)
    request: Request = read_request(kind, message, node_config)
    other = (
        "" if request.fingerprint == fingerprint_for(request.experiment) else request.fingerprint
    )
    facts = {"run": request.run, "seconds": request.seconds, "other_code": other}
    channel.sendall(frames.pack(frames.FACTS, json.dumps(facts).encode()))
    if other and kind is not REGISTER:
        raise CodeMismatchError(f"run {request.run} has other code than this site")
    return request


def worth_loading(request: Request, reply: Message, context: Context) -> bytes:
    """Return what the fork server may load for the run's next messages, as JSON; empty for nothing.

    That is the experiment of a registration without an error, on the CPU. Data in a GPU's memory
    cannot be inherited, and images on disk are shared by all processes anyway.
    """
    if not isinstance(request, RegistrationRequest):
        return b""
    answered = RegistrationReply.unpack(Packed.of(reply.content))
    if answered.error or answered.device != "cpu":
        return b""
    wish = {"experiment": request.experiment, "node_config": dict(context.node_config)}
    return json.dumps(wish).encode()
