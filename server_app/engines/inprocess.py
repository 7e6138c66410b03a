"""``engine=inprocess``: the same ServerApp and ClientApp in this process, without Ray."""

import shlex
from collections.abc import Sequence

from flwr.app import Context, RecordDict

from client_app.app import app as client_app
from server_app.app import app as server_app
from server_app.engines.inprocess_grid import RUN_ID, InProcessGrid
from server_app.experiment import Experiment


def run_inprocess(experiment: Experiment, overrides: Sequence[str]) -> None:
    """Run the experiment here; `overrides` are the words it was composed from.

    Raises:
        Exception: whatever ended the run; its record says so already.
    """
    grid = InProcessGrid(client_app, experiment.federation.workers or 1)
    context = Context(
        run_id=RUN_ID,
        node_id=0,
        node_config={},
        state=RecordDict(),
        run_config={"overrides": shlex.join(overrides)},
    )
    server_app(grid=grid, context=context)
