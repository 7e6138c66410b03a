"""Measure the same run on one, two and four raylets of this machine.

    uv run python -m benchmarks.raylets     (five minutes on two cores)

A raylet is what each machine of a Ray cluster runs. The raylets have four CPUs together, so that
there are always four workers, which share this machine's cores. So the table shows what a raylet
costs, and not what a machine gains. 200 clients of random images train `cnn` for one epoch, 100 of
them in a round. With FedAvg a worker sends the sum of its clients, with FedMedian every model. Of
five rounds, the first and the last are left out. The page gets the median seconds of a round, the
seconds of the command outside its rounds (start-up and end), the megabytes that all workers send in
a round, and the model's SHA-256, which must be the same.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd

from benchmarks.results import replace_part
from benchmarks.rounds import make, round_seconds
from server_app.runs.records.run_record import read_record
from tests.ray_cluster import Cluster
from univarfl.report.write import markdown

CPUS, ROUNDS, IMAGES, PARTICIPANTS = 4, 5, 4000, 100
RAYLETS = (1, 2, 4)
STRATEGIES = ("fedavg", "fedmedian")
COLUMNS = ("strategy", "raylets", "s/round", "s outside the rounds", "MB sent a round", "model")


def measure(words: list[str], strategy: str, raylets: int, place: Path) -> list[object]:
    """Return a row of the table."""
    name = f"{strategy}-{raylets}"
    with Cluster(CPUS // raylets) as cluster:
        for _ in range(raylets):
            cluster.raylet(place / "memory")
        started = time.monotonic()
        run = cluster.train(*words, f"strategy={strategy}", f"run_id={name}")
        said = run.communicate()[0]
        whole = time.monotonic() - started
    if run.returncode:
        raise subprocess.CalledProcessError(run.returncode, "univarfl train", said)
    record = read_record(place / name)
    seconds = round_seconds(place / name)
    models = 2 * CPUS if strategy == "fedavg" else PARTICIPANTS  # a sum has twice a model's bytes
    sent = models * (record.reply_bytes or 0) / 1e6
    outside = whole - sum(seconds)
    return [
        strategy, raylets, round(statistics.median(seconds[1:-1]), 2), round(outside, 1),
        round(sent, 1), record.model_sha256[:8],
    ]  # fmt: skip


def main() -> None:
    """Measure, and write the page's table."""
    rows = []
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        place = Path(name)
        words = [
            *make(place / "images", IMAGES), "num_clients=200", "rho=0.5", f"rounds={ROUNDS}",
            "local_epochs=1", f"evaluate_every={ROUNDS}", f"output_dir={place}",
            "watch.tensorboard=false",
        ]  # fmt: skip
        for strategy in STRATEGIES:
            for raylets in RAYLETS:
                rows.append(measure(words, strategy, raylets, place))
                print(rows[-1], file=sys.stderr, flush=True)
    table = markdown(pd.DataFrame(rows, columns=COLUMNS).astype(str))
    replace_part("raylets", f"{table}\n\nMade by `python -m benchmarks.raylets`.")


if __name__ == "__main__":
    main()
