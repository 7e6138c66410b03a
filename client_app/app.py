"""The ClientApp: introduces itself, trains a cohort, scores a cohort, forgets a finished run."""

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from client_app.cohort import evaluate_cohort, train_cohort
from client_app.discretion import discreet
from client_app.introduction import introduce
from client_app.log import logged
from client_app.memory import ClientMemory
from client_app.node import simulated
from client_app.request import Request
from client_app.signature import signed
from client_app.watchdog import ended_after
from task import wire
from task.site import Site

app = ClientApp(mods=[logged, discreet, signed])


@app.query()
def query(message: Message, context: Context) -> Message:
    """Say what this worker is and make it ready to train."""
    return Message(introduce(Request.of(message, context), context), reply_to=message)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train each client of the cohort from the global weights."""
    request = Request.of(message, context)
    with ended_after(request.seconds):
        return Message(train_cohort(request), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Score the global weights on each client's validation images."""
    request = Request.of(message, context)
    with ended_after(request.seconds):
        return Message(evaluate_cohort(request), reply_to=message)


@app.query(wire.FORGET)
def forget(message: Message, context: Context) -> Message:
    """Delete what the run's clients kept for another round."""
    request = Request.of(message, context)
    own = None if simulated(request.node_config) else Site.of(request.node_config)
    ClientMemory(request.run, site=own).forget()
    return Message(RecordDict(), reply_to=message)
