"""``engine=inprocess``: the same ServerApp and ClientApp in this process, without Ray."""

from collections.abc import Sequence

from flwr.app import Context, RecordDict

from client_app.app import app as client_app
from server_app.app import app as server_app
from server_app.config.experiment import Experiment
from server_app.config.run_config import to_run_config
from server_app.engines.inprocess_grid import RUN_ID, InProcessGrid


def run_inprocess(experiment: Experiment, words: Sequence[str]) -> None:
    """Run an experiment in this process.

    Args:
        experiment: the experiment, with its run directory.
        words: the words it was composed from.

    Raises:
        Exception: the error that ended the run; the record has its reason.
    """
    grid = InProcessGrid(client_app, experiment.federation.workers or 1)
    context = Context(
        run_id=RUN_ID,
        node_id=0,
        node_config={},
        state=RecordDict(),
        run_config=to_run_config(experiment, words),
    )
    server_app(grid=grid, context=context)
