"""The ClientApp: registers itself, trains and scores clients, deletes the states of a run."""

from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from client_app.client_state import ClientState
from client_app.masked import stages
from client_app.masked.report import report, score
from client_app.messages import read_request, write_reply
from client_app.mods.error_redaction import redact_errors
from client_app.mods.site_log import log_site_work
from client_app.node import simulated
from client_app.registration import register
from client_app.session import Session
from client_app.watchdog import process_ended_after
from client_app.work_unit import evaluate_clients, train_clients
from task.protocol.messages import (
    AGREE,
    EVALUATE,
    FORGET,
    KEYS,
    REGISTER,
    REPORT,
    SCORE,
    SHARES,
    TRAIN,
    UNMASK,
    ForgetReply,
    Kind,
)
from task.site import Site

app = ClientApp(mods=[log_site_work, redact_errors])


@app.query()
def query(message: Message, context: Context) -> Message:
    """Describe this worker and prepare it for training."""
    session = Session(read_request(REGISTER, message, context.node_config), context.node_config)
    return write_reply(REGISTER, register(session), message, context.node_config)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train each client that the message names from the global weights."""
    session = Session(read_request(TRAIN, message, context.node_config), context.node_config)
    with process_ended_after(session.request.seconds, context.node_config):
        return write_reply(TRAIN, train_clients(session), message, context.node_config)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Score the global weights on the validation images of each client that the message names."""
    session = Session(read_request(EVALUATE, message, context.node_config), context.node_config)
    with process_ended_after(session.request.seconds, context.node_config):
        return write_reply(EVALUATE, evaluate_clients(session), message, context.node_config)


def action(kind: Kind[Any, Any]) -> str:
    """Return the part of a message type that follows the dot."""
    return kind.message_type.partition(".")[2]


@app.query(action(KEYS))
def keys(message: Message, context: Context) -> Message:
    """Make new keys for an attempt at a masked round."""
    session = Session(read_request(KEYS, message, context.node_config), context.node_config)
    return write_reply(KEYS, stages.keys(session, context), message, context.node_config)


@app.query(action(SHARES))
def shares(message: Message, context: Context) -> Message:
    """Share the secrets of an attempt among its participants."""
    session = Session(read_request(SHARES, message, context.node_config), context.node_config)
    return write_reply(SHARES, stages.shares(session, context), message, context.node_config)


@app.train(action(REPORT))
def masked_report(message: Message, context: Context) -> Message:
    """Train each client that the message names, and send the sum of their masked updates."""
    session = Session(read_request(REPORT, message, context.node_config), context.node_config)
    with process_ended_after(session.request.seconds, context.node_config):
        return write_reply(REPORT, report(session, context), message, context.node_config)


@app.evaluate(action(SCORE))
def masked_score(message: Message, context: Context) -> Message:
    """Score the global weights on validation images, and send the sum of the masked scores."""
    session = Session(read_request(SCORE, message, context.node_config), context.node_config)
    with process_ended_after(session.request.seconds, context.node_config):
        return write_reply(SCORE, score(session, context), message, context.node_config)


@app.query(action(AGREE))
def agree(message: Message, context: Context) -> Message:
    """Sign the participants whose updates are in the sum."""
    session = Session(read_request(AGREE, message, context.node_config), context.node_config)
    return write_reply(AGREE, stages.agree(session, context), message, context.node_config)


@app.query(action(UNMASK))
def unmask(message: Message, context: Context) -> Message:
    """Reveal the shares that unmask the sum."""
    session = Session(read_request(UNMASK, message, context.node_config), context.node_config)
    return write_reply(UNMASK, stages.unmask(session, context), message, context.node_config)


@app.query(action(FORGET))
def forget(message: Message, context: Context) -> Message:
    """Delete the states that the run's clients keep."""
    request = read_request(FORGET, message, context.node_config)
    site = None if simulated(context.node_config) else Site.from_node_config(context.node_config)
    ClientState(request.run, site=site).delete()
    return write_reply(FORGET, ForgetReply.to(request), message, context.node_config)
