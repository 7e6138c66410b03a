"""Measure what a round through Flower and Ray costs for each message, client and byte.

    uv run python -m benchmarks.exchange_costs     (ten minutes on two cores)

Clients have 20 generated images and train `linear` for one epoch, in two workers. Of each pair of
runs, one has more of:

* clients: 10 or 1,000 of them, whose updates each worker adds up and sends as one sum;
* messages: 200 clients whose updates are sent each by itself (`guard=drop` looks at each), in two
  messages or in 200;
* bytes: `cnn` of 200 clients, which has 20 times the bytes of `linear`, added up or each by itself,
  in two messages.

The first round, and the last, which validates, are left out. The page gets the median seconds of
each run and the differences. A client's cost includes its training. Workers take messages side by
side, so a message's cost is that of its worker.
"""

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.results import replace_part
from benchmarks.rounds import round_seconds
from server_app.runs.records.run_record import read_record
from tests.processes import UNIVARFL
from univarfl.report.write import markdown

ROUNDS, IMAGES, WORKERS, MANY = 6, 20, 2, 200
EXPERIMENT = (
    "data=generated", "data.image_size=8", "model=linear", "method=fedavg", "device=cpu",
    "local_epochs=1", "engine=flower", f"federation.workers={WORKERS}", f"rounds={ROUNDS}",
    f"evaluate_every={ROUNDS}", "watch.tensorboard=false",
)  # fmt: skip
EACH, ALONE = "guard=drop", "federation.message_megabytes=0.001"
LARGE = ("model=cnn", "data.image_size=32")

Result = dict[str, Any]


def measure(what: str, clients: int, *words: str) -> Result:
    """Run once, and return its numbers."""
    data = [f"num_clients={clients}", f"data.num_images={IMAGES * clients}"]
    with tempfile.TemporaryDirectory() as place:
        command = [UNIVARFL, "train", *EXPERIMENT, *data, *words, f"output_dir={place}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        (directory,) = (path.parent for path in Path(place).glob("*/rounds.csv"))
        seconds = round_seconds(directory)
        model = read_record(directory).reply_bytes or 0
    each = EACH in words
    sent = model * (clients if each else 2 * WORKERS)  # a sum has twice a model's bytes
    return {
        "run": what,
        "clients": clients,
        "messages": clients if ALONE in words else WORKERS,
        "MB sent": sent / 1e6,
        "round, s": statistics.median(seconds[1:-1]),
    }


def main() -> None:
    """Measure, and write the page's table and costs."""
    found = []
    for run in (
        ("few clients, sums", 10),
        ("many clients, sums", 1000),
        ("two messages", MANY, EACH),
        ("a message for each client", MANY, EACH, ALONE),
        ("larger network, sums", MANY, *LARGE),
        ("larger network, each update", MANY, *LARGE, EACH),
    ):
        found.append(measure(*run))
        print(found[-1], file=sys.stderr, flush=True)
    few, many, together, alone, sums, updates = found

    def difference(more: Result, less: Result, by: str) -> float:
        """Return the additional seconds for one more of a number."""
        return float((more["round, s"] - less["round, s"]) / (more[by] - less[by]))

    message = WORKERS * difference(alone, together, "messages")
    costs = {
        "a client": f"{1e3 * difference(many, few, 'clients'):.2f} ms",
        "a message, in its worker": f"{1e3 * message:.0f} ms",
        "a megabyte": f"{1e3 * difference(updates, sums, 'MB sent'):.1f} ms",
    }
    table = pd.DataFrame(found)
    for name in ("MB sent", "round, s"):
        table[name] = [f"{value:.2f}" for value in table[name]]
    lines = [f"* {what}: {cost}" for what, cost in costs.items()]
    made = "Made by `python -m benchmarks.exchange_costs`."
    replace_part("exchange costs", "\n".join([markdown(table), "", *lines, "", made]))


if __name__ == "__main__":
    main()
