"""The ClientApp: registers itself, trains and scores clients, deletes the states of a run."""

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from client_app.client_state import ClientState
from client_app.messages import read_request, write_reply
from client_app.mods.error_redaction import redact_errors
from client_app.mods.site_log import log_site_work
from client_app.node import simulated
from client_app.registration import register
from client_app.session import Session
from client_app.watchdog import process_ended_after
from client_app.work_unit import evaluate_clients, train_clients
from task.protocol.messages import EVALUATE, FORGET, REGISTER, TRAIN, ForgetReply
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


@app.query(FORGET.message_type.partition(".")[2])
def forget(message: Message, context: Context) -> Message:
    """Delete the states that the run's clients keep."""
    request = read_request(FORGET, message, context.node_config)
    site = None if simulated(context.node_config) else Site.from_node_config(context.node_config)
    ClientState(request.run, site=site).delete()
    return write_reply(FORGET, ForgetReply.to(request), message, context.node_config)
