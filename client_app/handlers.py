"""Answers to the messages of the ServerApp."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from flwr.app import Context, Message

from client_app.admission import count_request
from client_app.after.finetuning import finetune_clients
from client_app.after.kept_parts import delete_state
from client_app.after.moments import moments_of_clients
from client_app.after.personal import parts_of_clients
from client_app.after.statistics import statistics_of_clients
from client_app.masked import stages
from client_app.masked.report import report, score
from client_app.messages import read_request, write_reply
from client_app.node import simulated
from client_app.registration import register
from client_app.session import Session
from client_app.watchdog import process_ended_after
from client_app.work_unit import evaluate_clients, train_clients
from task.protocol.messages import (
    AGREE,
    EVALUATE,
    FINETUNE,
    FORGET,
    KEYS,
    MOMENTS,
    PERSONAL,
    REGISTER,
    REPORT,
    SCORE,
    SHARES,
    STATISTICS,
    TRAIN,
    UNMASK,
    ForgetReply,
    Kind,
    Reply,
    Request,
)
from task.site import Site

Asked = TypeVar("Asked", bound=Request)
Answer = TypeVar("Answer", bound=Reply)


def answer(
    kind: Kind[Asked, Answer],
    message: Message,
    context: Context,
    work: Callable[[Session[Asked]], Answer],
    in_time: bool = False,
) -> Message:
    """Read a request, work on it, and write the reply.

    Args:
        kind: the kind of message.
        message: the message.
        context: the node's.
        work: answers the request.
        in_time: whether this process ends if it takes too long.
    """
    node_config = context.node_config
    session = Session(read_request(kind, message, node_config), node_config)
    with process_ended_after(session.request.seconds if in_time else 0.0, node_config):
        if kind.counted and session.site is not None:
            parts = session.request.parts(session.worker.model)
            count_request(session.site, session.request, kind.message_type, parts)
        return write_reply(kind, work(session), message, node_config)


def query(message: Message, context: Context) -> Message:
    """Describe this worker and prepare it for training."""
    return answer(REGISTER, message, context, register)


def train(message: Message, context: Context) -> Message:
    """Train each client that the message names from the global weights."""
    return answer(TRAIN, message, context, train_clients, in_time=True)


def evaluate(message: Message, context: Context) -> Message:
    """Score the global weights on the validation images of each client that the message names."""
    return answer(EVALUATE, message, context, evaluate_clients, in_time=True)


def personal(message: Message, context: Context) -> Message:
    """Send the part of the model of each client that the message names; a site keeps it."""
    return answer(PERSONAL, message, context, parts_of_clients, in_time=True)


def statistics(message: Message, context: Context) -> Message:
    """Send the statistics of each class's features, for each client that the message names."""
    return answer(STATISTICS, message, context, statistics_of_clients, in_time=True)


def moments(message: Message, context: Context) -> Message:
    """Send the moments of one layer's inputs, for each client that the message names."""
    return answer(MOMENTS, message, context, moments_of_clients, in_time=True)


def finetune(message: Message, context: Context) -> Message:
    """Fine-tune the final model at each client that the message names, and score it."""
    return answer(FINETUNE, message, context, finetune_clients, in_time=True)


def keys(message: Message, context: Context) -> Message:
    """Make new keys for an attempt at a masked round."""
    return answer(KEYS, message, context, partial(stages.keys, context=context))


def shares(message: Message, context: Context) -> Message:
    """Share the secrets of an attempt among its participants."""
    return answer(SHARES, message, context, partial(stages.shares, context=context))


def masked_report(message: Message, context: Context) -> Message:
    """Train each client that the message names, and send the sum of their masked updates."""
    return answer(REPORT, message, context, partial(report, context=context), in_time=True)


def masked_score(message: Message, context: Context) -> Message:
    """Score the global weights on validation images, and send the sum of the masked scores."""
    return answer(SCORE, message, context, partial(score, context=context), in_time=True)


def agree(message: Message, context: Context) -> Message:
    """Sign the participants whose updates are in the sum."""
    return answer(AGREE, message, context, partial(stages.agree, context=context))


def unmask(message: Message, context: Context) -> Message:
    """Reveal the shares that unmask the sum."""
    return answer(UNMASK, message, context, partial(stages.unmask, context=context))


def forget(message: Message, context: Context) -> Message:
    """Delete the states that the run's clients keep."""
    request = read_request(FORGET, message, context.node_config)
    site = None if simulated(context.node_config) else Site.from_node_config(context.node_config)
    delete_state(request.run, site)
    return write_reply(FORGET, ForgetReply.to(request), message, context.node_config)
