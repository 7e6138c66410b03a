"""``univarfl train``: one run by either engine, from checked settings to a closed record."""

import logging
from collections.abc import Sequence
from pathlib import Path

from server_app.aggregation.starting_weights import starting_weights
from server_app.config.experiment import Experiment
from server_app.rounds.after.base import stage_of
from server_app.rounds.errors import WorkerLostError
from server_app.runs.directory import plan_run_directory
from server_app.runs.records.run_record import RunRecord, read_record
from server_app.tracking.console import show_progress
from task.data.federated import federate
from task.error_messages import describe_error
from task.errors import RunError
from task.given_weights import given_weights
from task.training.worker import adapt, build_model_for
from univarfl.engines.claim import claimed
from univarfl.engines.flower import run_flower
from univarfl.engines.inprocess import run_inprocess
from univarfl.engines.plan import check_machine
from univarfl.engines.restarts import Restarts
from univarfl.engines.superlink import PrivateSuperLink
from univarfl.records.checkpoints import last_round, onward
from univarfl.records.status import close_record, mark_interrupted, reopen_record

logger = logging.getLogger("univarfl")


def train_experiment(experiment: Experiment, words: Sequence[str], workers: int = 1) -> Path:
    """Run an experiment, and return its run directory.

    Args:
        experiment: the experiment.
        words: the words it was composed from; the record keeps them.
        workers: the number of workers with ``engine=inprocess``, if the settings do not say it.

    Raises:
        ConfigError, DataError, DeviceError: the settings do not fit together, or the data cannot
            be used; nothing was run.
        RunError: the run failed; its record, if there is one, has status ``failed``.
    """
    show_progress()
    check_machine_and_data(experiment)
    directory = plan_run_directory(experiment)
    resume = bool(experiment.resume)
    with claimed(directory, resume=resume):
        record = attempt(experiment.placed(directory, resume=resume), words, directory, workers)
        restarts, reached = Restarts(), 0
        while record.restartable:
            before, reached = reached, last_round(directory)
            if not restarts.allow(progress=reached > before):
                break
            logger.info("%s; the workers are restarted to resume the run", record.reason)
            again = experiment.placed(directory, resume=True)
            record = attempt(again, words, directory, workers)
    if not record.completed:
        raise RunError(_failure(record.reason, directory))
    return directory


def attempt(
    experiment: Experiment, words: Sequence[str], directory: Path, workers: int
) -> RunRecord:
    """Run or resume an experiment once, and return its closed record.

    Raises:
        ConfigError: another process runs it.
        RunError: the run ended before the ServerApp wrote how, or its record cannot be written.
        KeyboardInterrupt: a person ended it; the text says how to go on.
    """
    if experiment.resume:
        try:
            reopen_record(directory)
        except OSError as error:
            raise RunError(_failure(describe_error(error), directory)) from error
    try:
        if experiment.engine == "inprocess":
            run_inprocess(experiment, words, workers)
        else:
            with PrivateSuperLink() as superlink:
                run_flower(experiment, words, directory, superlink)
    except KeyboardInterrupt:
        mark_interrupted(directory)
        raise KeyboardInterrupt(onward(directory)) from None
    except WorkerLostError:
        return read_record(directory)  # The ServerApp has closed it, with the reason.
    except Exception as error:
        reason = describe_error(error)
        close_record(directory, reason)
        raise RunError(_failure(reason, directory)) from error
    close_record(directory, "its process ended without writing a reason")
    return read_record(directory)


def check_machine_and_data(experiment: Experiment) -> None:
    """Refuse an experiment that this machine cannot run, or that does not fit its data.

    Raises:
        ConfigError, DataError, DeviceError: the text says what is missing or does not fit.
    """
    check_machine(experiment)
    local = experiment.local()
    dataset = federate(local).dataset
    network = build_model_for(local, dataset)
    stage_of(experiment).check_model(experiment, network, dataset)
    if given := given_weights(experiment.model):
        starting_weights(given, network.state_dict())
    adapt(local, network, dataset)
    local.tuning().trained(network)


def _failure(reason: str, directory: Path) -> str:
    log = directory / "run.log"
    where = f"; see {log}" if log.exists() else ""
    return f"the run failed: {reason}{where}{onward(directory)}"
