"""The cost of each method of a benchmark, relative to FedAvg."""

from collections.abc import Iterator

import pandas as pd

from server_app.config.composition import compose_experiment
from task.analysis.cost import Cost, training_cost
from univarfl.records.labels import label_of
from univarfl.sweeps.benchmark.outcome import BenchmarkRuns
from univarfl.sweeps.benchmark.plan import trials

BASE = "fedavg"


def costs(outcome: BenchmarkRuns) -> pd.DataFrame:
    """Return the cost of each method's training step; empty without a run of FedAvg."""
    found = dict(costs_and_replies(outcome))
    if BASE not in found:
        return pd.DataFrame()
    of_base, reply = found[BASE]
    return pd.DataFrame(
        {
            "method": label_of("method", method),
            "forward": f"{cost.forward / of_base.forward:.2f}x",
            "step": f"{cost.step / of_base.step:.2f}x",
            "numbers kept": f"{cost.stored / of_base.stored:.2f}x",
            "bytes sent": f"{sent / reply:.2f}x",
        }
        for method, (cost, sent) in found.items()
    )


def costs_and_replies(outcome: BenchmarkRuns) -> Iterator[tuple[str, tuple[Cost, int]]]:
    """Yield the cost of each method that has a run on the tuning cell, and a reply's bytes."""
    for method in outcome.plan.methods:
        runs = ((entry, outcome.run_of(entry)) for entry in trials(outcome.plan, method))
        entry, run = next(((e, r) for e, r in runs if r), (None, None))
        if entry is not None and run is not None:
            config = compose_experiment(entry.words)
            size, channels = config.source().image_size, config.source().channels
            classes = len(run.data.classes)
            cost = training_cost(config.local(), channels, size, classes)
            yield method, (cost, run.record.reply_bytes or 0)
