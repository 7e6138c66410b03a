"""Measure rounds of 10 to 1,000 clients: seconds over the bare loop's, and the server's memory.

    uv run python -m benchmarks.scale seconds [CLIENTS ...]  (20 minutes, two cores)
    uv run python -m benchmarks.scale memory PICTURE [AGGREGATION ...]     (15 minutes)

``seconds``: 50,000 random images of 32x32 are divided among all clients, which train `cnn` for two
local epochs with batch 64, crop and flip. Ours runs through Flower and Ray with two workers, with
all clients or a tenth of them a round. The bare loop trains the same clients in two processes that
keep freed memory, as ours do. Of six rounds, the first and the last are left out: the last also
evaluates every client's validation images.
``memory``: one round on the first 12,000 images for each aggregation. Printed are the peaks of the
server and of the largest worker, and the server's growth over ten clients.
"""

import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt

from benchmarks.bare_loop import run
from benchmarks.processes import MEGABYTE, watch
from benchmarks.rounds import bare_work, make, ours
from server_app.config.composition import compose_experiment
from server_app.rounds.sampling import sample_clients
from task.data.federated import federate
from task.training.worker import Worker

CLIENTS, RHOS, ROUNDS = (10, 100, 1000), ("0.1", "1.0"), 6
AGGREGATIONS = ("fedavg", "fedmedian", "fedtrimmedavg", "krum")


def seconds(place: Path, counts: Sequence[int]) -> None:
    """Print the table of rounds."""
    words = [*make(place, 50_000), f"rounds={ROUNDS}", f"evaluate_every={ROUNDS}"]
    print("| clients | rho | participants | ours, s/round | bare, s/round | ratio |")
    print("|---|---|---|---|---|---|")
    for clients in counts:
        for rho in RHOS:
            more = [f"num_clients={clients}", f"rho={rho}", "federation.workers=2"]
            experiment = compose_experiment([*words, *more])
            data = federate(experiment.local())
            sampled = sample_clients(clients, experiment.rho, experiment.seed, 1)
            work = bare_work(data, sampled, ROUNDS)
            found = statistics.median(ours([*words, *more])[1:-1])
            bare = statistics.median(run(work, 2, 1, tuned=True)[1:-1])
            ratio = f"{found:.2f} | {bare:.2f} | {found / bare:.2f}"
            print(f"| {clients} | {rho} | {len(sampled)} | {ratio} |", flush=True)


def memory(place: Path, picture: Path, aggregations: Sequence[str]) -> None:
    """Print the table of peak memory, and plot the server's."""
    words = [*make(place, 12_000), "rounds=1", "local_epochs=1", "federation.workers=2"]
    model = Worker(compose_experiment(words).local()).model_bytes / MEGABYTE
    print(f"a model takes {model:.2f} MB\n")
    print("| aggregation | participants | server, MB | over 10 clients, models each | worker, MB |")
    print("|---|---|---|---|---|")
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for aggregation in aggregations:
        found = []
        for clients in CLIENTS:
            peaks = watch([*words, f"num_clients={clients}", f"strategy={aggregation}"])
            found.append(peaks["server"][0].own)
            grown = (found[-1] - found[0]) / model / max(1, clients - CLIENTS[0])
            worker = max(peak.own for peak in peaks["worker"])
            print(
                f"| {aggregation} | {clients} | {found[-1]:.0f} | {grown:.2f} | {worker:.0f} |",
                flush=True,
            )
        style = "-" if aggregation == "fedavg" else "--"
        axes.plot(CLIENTS, found, style, marker="o", label=aggregation)
    bound = [found[0] + 3 * model * (clients - CLIENTS[0]) for clients in CLIENTS]
    axes.plot(CLIENTS, bound, color="black", linewidth=1, label="3 models a participant")
    axes.set(xlabel="participants of a round", ylabel="the server's own memory, MB")
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(picture, dpi=120)


def main(words: Sequence[str]) -> None:
    """Measure the seconds or the memory."""
    if words[:1] not in (["seconds"], ["memory"]) or words == ["memory"]:
        raise SystemExit(__doc__)
    with tempfile.TemporaryDirectory() as place:
        if words[0] == "seconds":
            seconds(Path(place), [int(word) for word in words[1:]] or CLIENTS)
        else:
            memory(Path(place), Path(words[1]), words[2:] or AGGREGATIONS)


if __name__ == "__main__":
    main(sys.argv[1:])
