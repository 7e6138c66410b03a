"""Measure the server's peak memory in a round, for each strategy that reads every update.

    uv run python -m benchmarks.aggregation_memory [STRATEGY ...]     (8 minutes, 8 GB of memory)

The model is `resnet18` (45 MB). Nobody trains: each reply is the global model times a factor. All
replies lie in the server's process when it begins to read them. The server's own code reads them
and computes the next model.

Each row is a process of its own. Memory is resident memory above that before the replies, in models
per participant. "replies" is before the first is read. "receiving" and "aggregating" are the peaks
of the two steps, which Linux counts (VmHWM); they include what is left of the replies.
"""

import gc
import json
import logging
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from tabulate import tabulate

from client_app.messages import read_request, write_reply
from server_app.aggregation.client_weights import ClientWeights
from server_app.aggregation.global_model import GlobalModel
from server_app.aggregation.strategies.base import strategy_of
from server_app.config.choices import choices
from server_app.config.composition import compose_experiment
from server_app.config.experiment import Experiment
from server_app.nodes.assignment import assign_clients
from server_app.nodes.late_replies import LateReplies
from server_app.nodes.manager import NodeManager
from server_app.nodes.messages import RunIdentity
from server_app.nodes.registration import NodeInfo
from server_app.rounds.context import Account, ClientSizes, RoundContext, RunEnd
from server_app.rounds.kind import RoundKind
from server_app.rounds.pace.training import clients_per_message
from task.protocol.tensors import PackedTensors
from task.protocol.training import TRAIN, TrainReply, TrainRow
from task.training.device import return_freed_memory
from task.training.worker import Worker
from univarfl.engines.local.grid import FIRST_NODE_ID
from univarfl.engines.local.inprocess_grid import InProcessGrid

PARTICIPANTS = (10, 30)
WORKERS = 2
COLUMNS = ["strategy", "participants", "replies", "receiving", "aggregating", "seconds"]


def resident(field: str = "VmRSS") -> int:
    """Return this process's resident memory in bytes, or its peak (``VmHWM``)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(field))


def reset_peak() -> None:
    """Count the peak from here."""
    Path("/proc/self/clear_refs").write_text("5")


def settled() -> int:
    """Return the resident memory without what the benchmark itself has freed."""
    gc.collect()
    return_freed_memory()
    return resident()


class Arrived(InProcessGrid):
    """A grid to which all replies have come before the first is pulled.

    Attributes:
        arrived: the resident memory with all replies.
    """

    arrived = 0

    def _work(self, wanted: Iterable[str]) -> None:
        while self._sent:
            super()._work(wanted)
        self.arrived = settled()
        reset_peak()


def client_app(examples: Sequence[int]) -> ClientApp:
    """Return an app that answers at once, for clients with these numbers of images."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        request = read_request(TRAIN, message, context.node_config)
        weights = request.weights.unpack()
        rows, models = [], {}
        for client in request.clients:
            row = TrainRow(client=client, device="cpu", examples=examples[client])
            rows.append(row.model_dump())
            sent = {name: value * (1 + (client + 1) / 1000) for name, value in weights.items()}
            models[str(client)] = PackedTensors.of(sent)
        reply = TrainReply.to(request, rows=rows, weights=models, extra={})
        return write_reply(TRAIN, reply, message, context.node_config)

    return app


def context_of(experiment: Experiment) -> tuple[RoundContext, Arrived]:
    """Return the parts of a run, and its grid."""
    local = experiment.local()
    worker, run = Worker(local), RunIdentity("0" * 32, local.model_dump_json())
    sizes = ClientSizes(worker.data)
    grid = Arrived(client_app(sizes.train), WORKERS)

    def ignore(site: str, what: str) -> None:
        pass

    clients = ClientWeights(experiment, sizes.train)
    return RoundContext(
        grid, run, experiment, worker, GlobalModel(experiment, worker, clients),
        NodeManager(grid, run, experiment, ignore), sizes, LateReplies(grid, ignore),
        Account(), RunEnd(experiment.rounds), ignore, Path(),
    ), grid  # fmt: skip


def measure(strategy: str, participants: int) -> list[float]:
    """Return the numbers of one row."""
    logging.getLogger("flwr").setLevel(logging.WARNING)
    words = [f"strategy={strategy}", f"num_clients={participants}", "rho=1", "partition=iid"]
    model_words = ["data=digits", "model=resnet18", "model.norm=group"]
    context, grid = context_of(compose_experiment([*words, *model_words]))
    model, clients, kind = context.model, range(participants), RoundKind(context)
    nodes = [NodeInfo(FIRST_NODE_ID + i, i, "cpu", "process", "host") for i in range(WORKERS)]
    accumulator = model.accumulator(clients, keep=False)
    several = clients_per_message(context, accumulator.adds_up, kind.reply_bytes)
    units = assign_clients(clients, context.sizes.train, nodes, several)
    unit = participants * sum(value.nbytes for value in model.weights.values())
    before = settled()
    kind.train(1, 1, units, accumulator, participants)
    peaks = [grid.arrived, resident("VmHWM")]
    reset_peak()
    started = time.perf_counter()
    model.update(1, accumulator, context.grid)
    seconds = time.perf_counter() - started
    peaks.append(resident("VmHWM"))
    return [*(round((peak - before) / unit, 2) for peak in peaks), round(seconds, 1)]


def main(words: Sequence[str]) -> None:
    """Print the table, or one row's numbers if the words are a strategy and a number."""
    if len(words) == 2 and words[1].isdigit():
        print(json.dumps(measure(words[0], int(words[1]))))
        return
    every = [
        name
        for name in choices()["strategy"]
        if strategy_of(
            compose_experiment([f"strategy={name}", "model.norm=group", "clock=virtual"])
        ).needs_each_update
    ]
    rows: list[list[object]] = []
    for strategy in words or every:
        for participants in PARTICIPANTS:
            command = [sys.executable, "-m", "benchmarks.aggregation_memory", strategy]
            done = subprocess.run(
                [*command, str(participants)], check=True, stdout=subprocess.PIPE, text=True
            )
            rows.append([strategy, participants, *json.loads(done.stdout.splitlines()[-1])])
            print(rows[-1], file=sys.stderr, flush=True)
    print(tabulate(rows, COLUMNS, tablefmt="github"))


if __name__ == "__main__":
    main(sys.argv[1:])
