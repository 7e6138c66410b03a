"""One round of the same clients, trained in four ways on one device.

In sequence, by several processes, by several processes under MPS, and by several threads of one
process with a CUDA stream each (no simple form trains several networks in one kernel: `vmap` does
not take batch norm's statistics). The clients are PACS divided at random. The clock starts when
every process has trained one client and ends with the last client's weights on the CPU.
"""

import hashlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch import Tensor

from benchmarks.gpu.mps import MpsError, mps, servers
from benchmarks.gpu.tables import table
from benchmarks.gpu.unit import Result, Settings, Unit
from server_app.config.composition import compose_experiment
from task.config import LocalConfig
from task.rules import read_local_config
from task.training.worker import Worker
from univarfl.engines.local.processes import CONTEXT, warm_up

PART = "rounds"
CLIENTS, QUICK_CLIENTS = 16, 4
COUNTS = (2, 4, 8)
GIBIBYTE = 2**30
CLOSE = 1.05  # a time within 5 % of the best counts as equal


def units() -> list[Unit]:
    """Return a unit for each way and number of clients trained at once."""
    ways = {"processes": (1, *COUNTS), "mps": COUNTS, "threads": COUNTS}
    return [
        Unit(PART, f"rounds-{way}-{count}", partial(measure, way, count), needs_pacs=True)
        for way, counts in ways.items()
        for count in counts
    ]


def measure(way: str, count: int, settings: Settings) -> Result:
    """Train every client once by `count` workers, and return seconds, memory and a hash."""
    local, parts = shares(count, settings, f"local_epochs={1 if settings.quick else 5}")
    found: Result = {"way": way, "count": count, "clients": local.num_clients}
    if way == "threads":
        return found | by_threads(local, parts)
    if way == "processes":
        return found | by_processes(local, parts, {})
    try:
        with mps() as environment:
            result = by_processes(local, parts, environment)
            return found | result | {"mps_servers": len(servers(environment))}
    except MpsError as error:
        return found | {"reason": str(error)}


def shares(count: int, settings: Settings, *words: str) -> tuple[LocalConfig, list[list[int]]]:
    """Return the experiment with further words, and the clients that each worker trains."""
    clients = QUICK_CLIENTS if settings.quick else CLIENTS
    every = [
        *settings.pacs_words(), f"device={settings.device}", "method=fedavg", "partition=iid",
        f"num_clients={clients}", *words,
    ]  # fmt: skip
    parts = [list(range(clients))[start::count] for start in range(min(count, clients))]
    return compose_experiment(every).local(), parts


def by_processes(
    local: LocalConfig, parts: Sequence[list[int]], environment: dict[str, str]
) -> Result:
    """Train each part in a process of its own."""
    with processes(local, parts, environment) as connections:
        for connection in connections:
            received(connection)  # it is ready
        started = time.perf_counter()
        for connection in connections:
            connection.send("train")
        hashes = {k: v for connection in connections for k, v in received(connection).items()}
        seconds = time.perf_counter() - started
        for connection in connections:
            connection.send("report memory")
        memory = [received(connection) for connection in connections]
    return facts(hashes, seconds, memory)


@contextmanager
def processes(
    local: LocalConfig, parts: Sequence[list[int]], environment: dict[str, str]
) -> Iterator[list[Connection]]:
    """Start a process for each part, yield the connections to them, and end them."""
    warm_up(__name__)
    members, connections = [], []
    try:
        for part in parts:
            here, there = CONTEXT.Pipe()
            arguments = (there, local.model_dump_json(), part, environment)
            member = CONTEXT.Process(target=serve, args=arguments, daemon=True)
            member.start()
            there.close()
            members.append(member)
            connections.append(here)
        yield connections
    finally:
        for here in connections:
            here.close()
        for member in members:
            member.join(10)
            member.terminate()


def serve(
    connection: Connection, local: str, clients: list[int], environment: dict[str, str]
) -> None:
    """Train the clients and report the memory, each when asked; send an error if there is one."""
    os.environ.update(environment)  # before CUDA is initialised, which reads it
    try:
        worker = ready(read_local_config(local), clients)
        connection.send("ready")
        connection.recv()
        connection.send(train(worker, clients))
        connection.recv()
        connection.send(memory_of(worker))
    except Exception as error:
        connection.send(RuntimeError(f"{type(error).__name__}: {error}"))


def received(connection: Connection) -> Any:
    """Return what a process sent.

    Raises:
        RuntimeError: it failed.
    """
    value = connection.recv()
    if isinstance(value, RuntimeError):
        raise value
    return value


def by_threads(local: LocalConfig, parts: Sequence[list[int]]) -> Result:
    """Train each part in a thread of this process, with a model and a CUDA stream of its own."""
    workers = [ready(local, part) for part in parts]
    with ThreadPoolExecutor(len(parts)) as pool:
        started = time.perf_counter()
        hashes = {k: v for one in pool.map(train_on_stream, workers, parts) for k, v in one.items()}
        seconds = time.perf_counter() - started
    return facts(hashes, seconds, [memory_of(workers[0])])


def ready(local: LocalConfig, clients: list[int]) -> Worker:
    """Return a worker that has trained one client, so that libraries are loaded and tuned."""
    worker = Worker(local)
    train(worker, clients[:1])
    return worker


def train_on_stream(worker: Worker, clients: list[int]) -> dict[int, str]:
    """Train the clients on a CUDA stream of their own; without CUDA, as they are."""
    on_cuda = worker.device.type == "cuda"
    with torch.cuda.stream(torch.cuda.Stream()) if on_cuda else nullcontext():
        return train(worker, clients)


def train(worker: Worker, clients: list[int]) -> dict[int, str]:
    """Train clients in sequence, and return the hash of each one's weights."""
    weights = worker.initial_weights()
    return {client: digest(worker.train(weights, 1, client).weights) for client in clients}


def digest(weights: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of weights in the order of their names."""
    sums = hashlib.sha256()
    for name in sorted(weights):
        sums.update(weights[name].numpy().tobytes())
    return sums.hexdigest()


def memory_of(worker: Worker) -> dict[str, float]:
    """Return GiB in use on the device by all processes, and this process's peak; empty on a CPU."""
    if worker.device.type != "cuda":
        return {}
    free, total = torch.cuda.mem_get_info(worker.device)
    peak = torch.cuda.max_memory_reserved(worker.device)
    return {"in_use": (total - free) / GIBIBYTE, "peak_of_process": peak / GIBIBYTE}


def facts(
    hashes: Mapping[int, str], seconds: float, memory: Sequence[Mapping[str, float]]
) -> Result:
    """Return what a round took, and one hash of all clients' weights."""
    whole = hashlib.sha256("".join(hashes[client] for client in sorted(hashes)).encode())
    largest = {name: max(one[name] for one in memory) for name in memory[0]}
    return {"seconds": seconds, "sha256": whole.hexdigest(), **largest}


def report(results: dict[str, Result]) -> str:
    """Return the table of rounds, and the number of workers to choose by default."""
    rounds = [one for one in results.values() if "seconds" in one]
    refused = {f"{one['way']}: {one['reason']}" for one in results.values() if "reason" in one}
    alone = results.get("rounds-processes-1", {}).get("seconds")
    rows = [
        {
            "parallel clients": one["way"], "at once": one["count"],
            "s a round": f"{one['seconds']:.2f}",
            "speed-up": f"{alone / one['seconds']:.2f}" if alone else "",
            "GiB in use": f"{one['in_use']:.2f}" if "in_use" in one else "",
            "GiB, peak of a process": f"{one['peak_of_process']:.2f}"
            if "peak_of_process" in one else "",
            "SHA-256": one["sha256"][:16],
        }
        for one in rounds
    ]  # fmt: skip
    lines = [table(rows), *sorted(refused)]
    if rounds:
        equal = "equal" if len({one["sha256"] for one in rounds}) == 1 else "NOT EQUAL"
        lines.append(f"{rounds[0]['clients']} clients; bits are {equal}. {advice(rounds)}")
    return "\n\n".join(filter(None, lines))


def advice(rounds: Sequence[Result]) -> str:
    """Return the least number of processes, without MPS, that is about as fast as the best."""
    seconds = {one["count"]: one["seconds"] for one in rounds if one["way"] == "processes"}
    if not seconds:
        return ""
    best = min(seconds.values())
    least = min(count for count, spent in seconds.items() if spent <= CLOSE * best)
    return f"Workers to choose by default, within 5 % of the fastest: {least}."
