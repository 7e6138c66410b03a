"""Flower's FedAvg over all SuperNodes, with the time of each round's end."""

import json
import time
from itertools import pairwise
from pathlib import Path

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from task.models.cnn import Cnn

ROUNDS, CLIENTS = 5, 10

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the rounds, and write their seconds as JSON to the file named in the run-config."""
    ends: list[float] = []
    strategy = FedAvg(fraction_evaluate=0.0, min_available_nodes=CLIENTS)
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(Cnn(3, 10, 256).state_dict()),
        num_rounds=ROUNDS,
        evaluate_fn=lambda *_: ends.append(time.perf_counter()),
    )
    seconds = [end - begin for begin, end in pairwise(ends)]
    Path(str(context.run_config["result"])).write_text(json.dumps(seconds))
