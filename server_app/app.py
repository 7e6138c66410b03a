"""The ServerApp: reads the configuration, runs the federation, leaves a record."""

import logging
import shlex

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from server_app.checkpoint import Checkpoint, load_checkpoint
from server_app.composition import compose_experiment
from server_app.curves import draw_curves
from server_app.engines.inprocess_grid import InProcessGrid
from server_app.experiment import Experiment
from server_app.failures import RunFailedError, WorkerLostError
from server_app.federation import Federation
from server_app.handshake import HandshakeError
from server_app.progress import closing_lines, show_progress
from server_app.recorder import NOTHING, Recorder
from server_app.resuming import whole_words
from server_app.run_directory import plan_run_directory
from server_app.run_record import INTERRUPTED
from task.causes import explained
from task.errors import ConfigError, DataError, DeviceError

app = ServerApp()
logger = logging.getLogger("univarfl")


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run one experiment over any grid; its only run-config key is ``overrides``.

    Raises:
        ConfigError: an override is wrong, or clients, data and model do not fit together.
        DataError, DeviceError, HandshakeError, RunFailedError: the run ended without a model; the
            record has status ``failed`` and the reason.
    """
    show_progress()
    try:
        overrides = whole_words(shlex.split(str(context.run_config["overrides"])))
        experiment = compose_experiment(overrides)
        if experiment.engine == "inprocess" and not isinstance(grid, InProcessGrid):
            raise ConfigError("engine", "inprocess", "only 'univarfl train' can choose it")
        directory, checkpoint = plan_run_directory(experiment), None
        if experiment.resume:
            checkpoint = load_checkpoint(directory)
        recorder = Recorder(directory, experiment, checkpoint.round if checkpoint else NOTHING)
    except ConfigError as error:
        logger.error("%s", error)
        raise
    name = "inprocess" if isinstance(grid, InProcessGrid) else "flower"
    recorder.update(engine={"name": name, "run_id": str(context.run_id)})
    if not experiment.resume:
        recorder.update(overrides=overrides)
    conduct(grid, experiment, recorder, checkpoint)


def conduct(
    grid: Grid, experiment: Experiment, recorder: Recorder, checkpoint: Checkpoint | None
) -> None:
    """Run the experiment and close its record, whatever happens."""
    try:
        Federation(grid, experiment, recorder, checkpoint).run()
        draw_curves(recorder.directory)
    except (ConfigError, DataError, DeviceError, HandshakeError, RunFailedError) as error:
        logger.error("the run failed: %s", error)
        recorder.fail(str(error), worker_lost=isinstance(error, WorkerLostError))
        raise
    except KeyboardInterrupt:
        recorder.fail(INTERRUPTED)
        raise
    except SystemExit:
        recorder.fail("Flower ended it: it was told to stop, or its SuperLink was gone")
        raise
    except BaseException as error:
        logger.exception("the run failed: %s", explained(error))
        recorder.fail(explained(error))
        raise
    for line in closing_lines(recorder.directory, recorder.summary):
        logger.info(line)
    recorder.complete()
