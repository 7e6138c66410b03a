"""The ServerApp: it reads the configuration, runs the federation and writes a record."""

import logging
from contextlib import AbstractContextManager, nullcontext

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from server_app.config.differences import HOW_IT_RUNS
from server_app.config.experiment import Experiment
from server_app.config.override_text import as_typed, flat
from server_app.config.recorded_words import recorded_words
from server_app.config.run_config import SETTINGS, from_run_config
from server_app.flower.internals import GRID_ERRORS
from server_app.nodes.registration import RegistrationError
from server_app.rounds.errors import CommandEndedError, RunFailedError, WorkerLostError
from server_app.rounds.federation import Federation, delete_client_states
from server_app.runs.directory import plan_run_directory
from server_app.runs.recorder import Recorder
from server_app.runs.records.record import INTERRUPTED
from server_app.tracking.closing import closing_lines
from server_app.tracking.console import show_progress
from server_app.tracking.curves import draw_curves
from server_app.tracking.loggers import metric_loggers
from task.error_messages import describe_error
from task.errors import ConfigError, DataError, DeviceError
from task.registry import named

LEASE = "server_app.flower.lease:LeaseWatch"  # of a run that a command has submitted
app = ServerApp()
logger = logging.getLogger("univarfl")


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the experiment of the run-config over any grid; see `server_app.config.run_config`.

    Raises:
        ConfigError: a setting is not allowed, or clients, data and model do not fit together.
        DataError, DeviceError, RegistrationError, RunFailedError: the run ended without a model;
            the record has status ``failed`` and the reason.
    """
    show_progress()
    try:
        experiment, words, lease = from_run_config(context.run_config)
        engine = "inprocess" if SETTINGS in context.run_config else "flower"
        experiment = experiment.model_copy(update={"engine": engine})
        directory = plan_run_directory(experiment)
        experiment = experiment.placed(directory, resume=bool(experiment.resume))
        recorder = Recorder(directory, experiment)
    except ConfigError as error:
        logger.error("%s", error)
        raise
    recorder.update(engine={"name": engine, "run_id": str(context.run_id)})
    recorder.update(overrides=recorded_words(words, experiment))
    if experiment.resume:
        record_changes(recorder, experiment)
    watch = named(LEASE)(lease) if lease else nullcontext()
    run_federation(grid, experiment, recorder, watch)


def record_changes(recorder: Recorder, experiment: Experiment) -> None:
    """Record the settings that a resumed run has changed, after which round."""
    server_round = recorder.checkpoint.round if recorder.checkpoint else 0
    earlier = recorder.record.config
    now = experiment.model_dump(include=set(HOW_IT_RUNS))
    before = flat({key: earlier[key] for key in now})
    changed = [
        f"{key}={as_typed(value)}" for key, value in flat(now).items() if before.get(key) != value
    ]
    if changed:
        recorder.event(server_round, "", f"from here on {', '.join(changed)}")
        recorder.update(config={**earlier, **now})


def run_federation(
    grid: Grid, experiment: Experiment, recorder: Recorder, watch: AbstractContextManager[None]
) -> None:
    """Run the experiment, and close its record however the run ends."""
    try:
        with (
            watch,
            metric_loggers(experiment, recorder.directory, recorder.record) as loggers,
        ):
            context = Federation(grid, experiment, recorder, loggers).run()
        draw_curves(recorder.directory)
        recorder.compact_clients()
        for line in closing_lines(recorder.directory, recorder.record):
            logger.info(line)
    except (ConfigError, DataError, DeviceError, RegistrationError, RunFailedError) as error:
        logger.error("the run failed: %s", error)
        recorder.fail(str(error), restartable=isinstance(error, WorkerLostError))
        raise
    except CommandEndedError as error:
        logger.error("the run ends: %s", error)
        recorder.fail(str(error))
        raise RunFailedError(str(error)) from None
    except KeyboardInterrupt:
        recorder.fail(INTERRUPTED)
        raise
    except SystemExit:
        recorder.fail(
            "Flower ended the run: it was stopped, or the SuperLink is gone", restartable=True
        )
        raise
    except BaseException as error:
        logger.exception("the run failed: %s", describe_error(error))
        recorder.fail(describe_error(error), restartable=isinstance(error, GRID_ERRORS))
        raise
    try:
        recorder.complete()
        delete_client_states(context)
    finally:
        recorder.close()
