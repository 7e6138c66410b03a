"""``univarfl train``: one run by either engine, from checked settings to a closed record."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from server_app.checkpoint import checkpoints
from server_app.composition import compose_experiment, local_paths
from server_app.engines.cluster import check_address
from server_app.engines.flower import run_flower
from server_app.engines.inprocess import run_inprocess
from server_app.engines.superlink import SuperLink
from server_app.experiment import Experiment
from server_app.progress import show_progress
from server_app.quoting import quoted
from server_app.resuming import whole_words
from server_app.run_directory import plan_run_directory
from server_app.run_record import close_record, mark_interrupted, read_record, reopen_record
from task.causes import explained
from task.data.federated import federate
from task.device import choose_device
from task.errors import ConfigError, RunError
from task.worker import network_for


def train_experiment(
    experiment: Experiment, overrides: Sequence[str], superlink: SuperLink | None = None
) -> Path:
    """Run an experiment composed from `overrides`; its run directory.

    Args:
        experiment: what to run.
        overrides: what it was composed from.
        superlink: for ``engine=flower``; started, if not yet ready.

    Raises:
        ConfigError, DataError, DeviceError: the settings do not fit together, or the data cannot
            be used; nothing was run.
        RunError: the run failed; its record, if it got as far, has status ``failed``.
    """
    show_progress()
    check_together(experiment)
    if (superlink is None) != (experiment.engine == "inprocess"):
        raise ValueError(f"engine={experiment.engine} with superlink={superlink}")
    directory = plan_run_directory(experiment)
    record = attempt(experiment, overrides, directory, superlink)
    if record.get("worker_lost"):
        print(f"{record['reason']}; Flower is started anew, and the run goes on", flush=True)
        words = whole_words([f"resume={directory}"])
        with SuperLink() as anew:
            record = attempt(compose_experiment(words), words, directory, anew)
    if record["status"] != "completed":
        raise RunError(_where(record["reason"], directory))
    return directory


def attempt(
    experiment: Experiment, overrides: Sequence[str], directory: Path, superlink: SuperLink | None
) -> dict[str, Any]:
    """Run or resume an experiment, once; its record, which is closed.

    Raises:
        RunError: it ended without a word from the ServerApp.
    """
    place = [f"output_dir={quoted(str(directory.parent))}", f"run_id={directory.name}"]
    paths = local_paths(experiment.data)
    place += [f"data.{key}={quoted(path)}" for key, path in paths.items()]
    try:
        if experiment.resume:
            reopen_record(directory)
        if superlink is None:
            run_inprocess(experiment, [*overrides, *place])
        else:
            run_flower(experiment, [*overrides, *place], directory, superlink)
    except KeyboardInterrupt:
        mark_interrupted(directory)
        raise
    except Exception as error:
        reason = explained(error)
        close_record(directory, reason)
        raise RunError(_where(reason, directory)) from error
    close_record(directory, "the process that ran it ended without a word")
    return read_record(directory)


def check_together(experiment: Experiment) -> None:
    """Refuse settings that are each allowed and do not fit together, before anything is started."""
    local = experiment.local()
    if local.divider().sites:
        allowed = "sites are real machines; see 'univarfl deploy --help'"
        raise ConfigError("partition", "sites", allowed)
    if experiment.engine == "flower":
        check_address()
    choose_device(local.device)
    network_for(local, federate(local).dataset)


def _where(reason: str, directory: Path) -> str:
    log = directory / "run.log"
    where = f"; see {log}" if log.exists() else ""
    kept = bool(checkpoints(directory))
    onward = f"; go on with it: univarfl train resume={directory}" if kept else ""
    return f"the run failed: {reason}{where}{onward}"
