"""A cohort: the clients that one message names, trained or scored in turn.

A client that fails is reported in its own status record; the others of its cohort go on.
"""

import logging
import time
from functools import partial

from flwr.app import ArrayRecord, ConfigRecord, RecordDict

from client_app.arrays import pack
from client_app.discretion import told
from client_app.memory import ClientMemory
from client_app.request import Request, RequestError
from client_app.restraint import shortened
from task import wire
from task.averaging import ExactSum
from task.causes import explained
from task.training import LocalResult

logger = logging.getLogger("univarfl.client")


def train_cohort(request: Request) -> RecordDict:
    """Train each client: its arrays and its row, which says why if there are none."""
    rows: list[dict[str, wire.Cell]] = []
    outbox = Sum(request) if request.shares else Apart()
    for client, accepted in zip(request.clients, request.accepted, strict=True):
        started = time.perf_counter()
        row: dict[str, wire.Cell] = {
            "client": client, "device": request.worker.device.type, "status": "ok", "reason": "",
            "examples": 0, "seconds": 0.0,
        }  # fmt: skip
        try:
            result = train_client(request, client, accepted)
            outbox.put(client, shortened(result, request.weights, request.longest))
        except Exception as error:
            logger.exception("client %d failed in round %d", client, request.round)
            reason = told(error, explained(error), request.node_config)
            row |= {"status": "failed", "reason": reason}
        else:
            losses = {f"{wire.LOSS_PREFIX}{name}": value for name, value in result.losses.items()}
            seconds = time.perf_counter() - started
            row |= {"examples": result.examples, "seconds": seconds, **losses}
            counts = request.round, result.examples, seconds
            logger.info("round %d: trained on %d images in %.1f s", *counts)
        rows.append(row)
    return RecordDict({wire.CLIENTS: ConfigRecord(wire.columns(rows)), **outbox.records()})


class Apart:
    """The trained models, each for itself."""

    def __init__(self) -> None:
        self._records: dict[str, ArrayRecord] = {}

    def put(self, client: int, result: LocalResult) -> None:
        """Take a client's result."""
        self._records[wire.key(wire.ARRAYS, client)] = pack(result.weights)
        if result.extra:
            self._records[wire.key(wire.EXTRA, client)] = pack(result.extra)

    def records(self) -> dict[str, ArrayRecord]:
        """What goes to the server."""
        return self._records


class Sum:
    """The trained models' weighted sum."""

    def __init__(self, request: Request) -> None:
        self._shares = dict(zip(request.clients, request.shares, strict=True))
        self._sums = {
            wire.ARRAYS: ExactSum(request.weights),
            wire.EXTRA: ExactSum(request.broadcast),
        }

    def put(self, client: int, result: LocalResult) -> None:
        """Take a client's result.

        Raises:
            TrainingError: a number grew too large.
        """
        results = {wire.ARRAYS: result.weights, wire.EXTRA: result.extra}
        share = self._shares[client]
        parts = {kind: self._sums[kind].part(values, share) for kind, values in results.items()}
        for kind, part in parts.items():
            self._sums[kind].add(part)

    def records(self) -> dict[str, ArrayRecord]:
        """What goes to the server; nothing where every client failed."""
        return {
            wire.key(kind, wire.SUM): pack(total.totals)
            for kind, total in self._sums.items()
            if total.totals
        }


def train_client(request: Request, client: int, accepted: int) -> LocalResult:
    """Train one client, with its memory of the round it was last accepted in."""
    worker = request.worker
    if client not in worker.data.clients:
        raise RequestError(f"client {client} is not trained here")
    train = partial(worker.train, request.weights, request.round, client)
    keepers = [member for member in worker.method.members() if member.memory]
    if not keepers:
        return train(broadcast=request.broadcast, deadline=request.deadline)
    most_bytes = len(keepers) * worker.model_bytes  # a model each, at most
    memory = ClientMemory(request.run, most_bytes, request.site)
    result = train(memory.load(client, accepted), request.broadcast, request.deadline)
    memory.keep(client, request.round, accepted, result.memory)
    return result


def evaluate_cohort(request: Request) -> RecordDict:
    """Score the global weights on each client's validation images."""
    scores = request.worker.validate(request.weights, request.clients)
    rows: list[dict[str, wire.Cell]] = [
        {"client": client, "examples": of.examples, "correct": of.correct, "loss": of.loss}
        for client, of in zip(request.clients, scores, strict=True)
    ]
    for of in scores:
        logger.info("round %d: validated on %d images", request.round, of.examples)
    return RecordDict({wire.CLIENTS: ConfigRecord(wire.columns(rows))})
