"""A cohort: the clients that one message names, trained or scored in turn.

A client that fails is reported in its own status record; the others of its cohort go on.
"""

import logging
import time

from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from client_app.request import Request
from task import wire

logger = logging.getLogger("univarfl.client")


def train_cohort(request: Request) -> RecordDict:
    """Train each client: weights, metrics and status, or a status that says why not."""
    reply = RecordDict()
    worker = request.worker
    for client in request.clients:
        started = time.perf_counter()
        status = {"status": "ok", "reason": "", "device": worker.device.type}
        try:
            result = worker.train(request.weights, request.round, client)
        except Exception as error:
            logger.exception("client %d failed in round %d", client, request.round)
            status |= {"status": "failed", "reason": one_line(error)}
        else:
            losses = {f"{wire.LOSS_PREFIX}{name}": value for name, value in result.losses.items()}
            seconds = time.perf_counter() - started
            metrics = MetricRecord({"examples": result.examples, "seconds": seconds, **losses})
            reply[wire.key(wire.ARRAYS, client)] = ArrayRecord(result.weights)
            reply[wire.key(wire.METRICS, client)] = metrics
        reply[wire.key(wire.STATUS, client)] = ConfigRecord(dict(status))
    return reply


def evaluate_cohort(request: Request) -> RecordDict:
    """Score the global weights on each client's validation images."""
    scores = request.worker.validate(request.weights, request.clients)
    reply = RecordDict()
    for client, score in zip(request.clients, scores, strict=True):
        counts = {"examples": score.examples, "correct": score.correct, "loss": score.loss}
        reply[wire.key(wire.METRICS, client)] = MetricRecord(dict(counts))
    return reply


def one_line(error: Exception) -> str:
    """An error as one line: its type and the first line of its text."""
    text = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
