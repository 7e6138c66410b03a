"""``engine=inprocess``: the same ServerApp and ClientApp without Ray, in one process or several."""

import os
from collections.abc import Sequence
from contextlib import closing

from flwr.app import Context, RecordDict

from client_app.app import app as client_app
from server_app.app import app as server_app
from server_app.config.experiment import Experiment
from server_app.config.run_config import Submitted
from task.training.worker import shared_worker
from univarfl.engines.cluster import this_machine
from univarfl.engines.early import WORKER_MODULES
from univarfl.engines.layout import Layout
from univarfl.engines.local.grid import RUN_ID, LocalGrid
from univarfl.engines.local.inprocess_grid import InProcessGrid
from univarfl.engines.local.processes import warm_up
from univarfl.engines.local.worker_processes import VISIBLE_GPUS, WorkerProcesses
from univarfl.engines.run_config import to_run_config

CLIENT_APP = "client_app.app:app"


def run_inprocess(experiment: Experiment, words: Sequence[str], wanted: int = 1) -> None:
    """Run an experiment in this process, or in this one and a process for each worker.

    Args:
        experiment: the experiment, with its run directory.
        words: the words it was composed from.
        wanted: the number of workers, if the experiment does not say it.

    Raises:
        Exception: the error that ended the run; the record has its reason.
    """
    context = Context(
        run_id=RUN_ID,
        node_id=0,
        node_config={},
        state=RecordDict(),
        run_config=to_run_config(Submitted(experiment, words)),
    )
    workers = Layout.of(experiment).own_processes(wanted)
    shared_worker.cache_clear()  # that of an earlier run may hold images that have changed since
    try:
        with closing(grid_of(workers, experiment.device)) as grid:
            server_app(grid=grid, context=context)
    finally:
        shared_worker.cache_clear()


def grid_of(workers: int, device: str) -> LocalGrid:
    """Return the grid of a run: this process, or a process for each of several workers."""
    if workers == 1:
        return InProcessGrid(client_app, 1)
    warm_up(*WORKER_MODULES)
    return WorkerProcesses(CLIENT_APP, workers, [] if device == "cpu" else gpu_names())


def gpu_names() -> list[str]:
    """Return this machine's GPUs as ``$CUDA_VISIBLE_DEVICES`` names them."""
    visible = os.environ.get(VISIBLE_GPUS)
    return visible.split(",") if visible else [str(index) for index in range(this_machine().gpus)]
