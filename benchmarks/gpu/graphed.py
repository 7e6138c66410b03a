"""Does ``runtime=graphed`` give the bits of eager steps, and how long does a step take?

`graphed-bits` trains each method that allows it for two rounds of a client, both ways. The other
units train the first client of PACS for ten epochs: milliseconds a step, with the batches and the
recordings, beside those of the step's kernels alone. `graphed-round` units train sixteen clients by
several processes that share the GPU.
"""

import time
from functools import partial

from benchmarks.gpu import kernels, rounds
from benchmarks.gpu.chip import PRECISIONS, synchronize
from benchmarks.gpu.mps import mps_if_installed
from benchmarks.gpu.steps import NETWORKS, QUICK_SIZES
from benchmarks.gpu.tables import table
from benchmarks.gpu.unit import Result, Settings, Unit
from server_app.config.choices import choices
from server_app.config.composition import compose_experiment
from task.config import Precision
from task.errors import TrainingError
from task.methods.base import LocalRound
from task.registry import component_class
from task.seeding import torch_generator
from task.training.worker import Worker

PART = "graphed"
MEASURED = ("cnn", "resnet18")
COUNTS = (1, 4)
EPOCHS, QUICK_EPOCHS = 10, 2
RUNTIMES = ("eager", "graphed")
LAST = ("fedntd", "fedrcl")  # deterministic scatter may copy from the CPU


def units() -> list[Unit]:
    """Return the units; see the module's description."""
    steps = [
        Unit(PART, f"graphed-{network}-{precision}", partial(measure, network, precision), True)
        for network in MEASURED
        for precision in PRECISIONS
    ]
    shared = [
        Unit(PART, f"graphed-round-{runtime}-{count}", partial(one_round, runtime, count), True)
        for count in COUNTS
        for runtime in RUNTIMES
    ]
    return [Unit(PART, "graphed-bits", bits), *steps, *shared]


def bits(settings: Settings) -> Result:
    """Return for each method whether both ways give the same, or why it failed."""
    found: Result = {}
    for method in sorted(choices()["method"], key=lambda name: name in LAST):
        kind = component_class("method", method)
        if kind.replayable and not kind.residual:
            try:
                hashes = {two_rounds(method, runtime, settings) for runtime in RUNTIMES}
                found[method] = "equal" if len(hashes) == 1 else "DIFFERENT"
            except (RuntimeError, TrainingError) as error:
                found[method] = str(error).strip().split("\n")[0]
                break  # a failed recording may leave the process unusable
    return {"methods": found}


def two_rounds(method: str, runtime: str, settings: Settings) -> str:
    """Return the hash of what a client sends and keeps after two rounds."""
    words = [f"method={method}", "model=cnn", "batch_size=16", "local_epochs=3"]
    words += [f"runtime={runtime}", f"device={settings.device}"]
    worker = Worker(compose_experiment(words).local())
    weights, broadcast = worker.initial_weights(), worker.broadcast()
    first = worker.train(weights, 1, 0, broadcast=broadcast)
    second = worker.train(first.weights, 2, 0, first.state, broadcast)
    return rounds.digest({**second.weights, **second.state, **second.extra})


def measure(network: str, precision: Precision, settings: Settings) -> Result:
    """Return milliseconds a step of both ways, of the kernels alone, and whether bits are equal."""
    size = QUICK_SIZES[network] if settings.quick else NETWORKS[network]
    found: Result = {"network": network, "size": size, "precision": precision}
    hashes = set()
    for runtime in RUNTIMES:
        words = [
            *settings.pacs_words(), f"model={network}", f"data.image_size={size}", "method=fedavg",
            f"runtime={runtime}", f"runtime.precision={precision}", f"device={settings.device}",
            f"local_epochs={QUICK_EPOCHS if settings.quick else EPOCHS}", "last_batch=drop",
        ]  # fmt: skip
        worker = Worker(compose_experiment(words).local())
        start = worker.initial_weights()
        worker.train(start, 1, 0)  # loads libraries
        synchronize(worker.device)
        started = time.perf_counter()
        weights = worker.train(start, 2, 0).weights
        spent = time.perf_counter() - started
        hashes.add(rounds.digest(weights))
        config = worker.config
        steps = config.local_epochs * (len(worker.data.clients[0].train) // config.batch_size)
        found[runtime] = 1e3 * spent / max(1, steps)
        found["batch"] = config.batch_size
    rows = worker.images.index(worker.data.clients[0].train)[: found["batch"]]
    this = LocalRound(1, 0, torch_generator(0, "draws"), worker.images.counts(rows))
    worker.method.start(worker.model, this)
    found["kernels"] = kernels.profiled(worker.trainer, *worker.images[rows])["busy"]
    return found | {"equal": len(hashes) == 1}


def one_round(runtime: str, count: int, settings: Settings) -> Result:
    """Train sixteen clients by several processes, with tf32."""
    epochs = f"local_epochs={QUICK_EPOCHS if settings.quick else EPOCHS}"
    words = (epochs, f"runtime={runtime}", "runtime.precision=tf32")
    local, parts = rounds.shares(count, settings, *words)
    found: Result = {"way": runtime, "count": count, "clients": local.num_clients}
    with mps_if_installed() as environment:
        return found | rounds.by_processes(local, parts, environment)


def report(results: dict[str, Result]) -> str:
    """Return the methods' bits, the table of steps and the table of rounds."""
    methods = results.get("graphed-bits", {}).get("methods", {})
    words = [", ".join(f"{name} {verdict}" for name, verdict in methods.items())]
    steps = [
        {
            "step": f"{one['network']}, {one['size']}x{one['size']}, {one['precision']}",
            "ms, eager": f"{one['eager']:.2f}", "ms, graphed": f"{one['graphed']:.2f}",
            "ms of kernels": f"{one['kernels']:.2f}",
            "bits": "equal" if one["equal"] else "NOT EQUAL",
        }
        for one in results.values() if "kernels" in one
    ]  # fmt: skip
    shared = [
        {
            "runtime": one["way"], "processes": one["count"], "s a round": f"{one['seconds']:.2f}",
            "SHA-256": one["sha256"][:16],
        }
        for one in results.values() if "sha256" in one
    ]  # fmt: skip
    return "\n\n".join(filter(None, [*words, table(steps), table(shared)]))
