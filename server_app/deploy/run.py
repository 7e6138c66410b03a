"""One run on the sites that have joined, submitted and followed at the coordinator."""

import signal
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path

from server_app.config.composition import compose_experiment
from server_app.config.resuming import whole_words
from server_app.deploy.places import CoordinatorPlace, refuse_unusable
from server_app.engines.flower import first_exception, follow, log_length, run_command, unfinished
from server_app.flower.programs import CONNECTION, is_healthy, run_to_end, start, stop
from server_app.rounds.errors import InterruptedRunError
from server_app.runs.directory import plan_run_directory
from server_app.runs.lock import is_held
from server_app.runs.records.record import (
    INTERRUPTED,
    close_record,
    read_record,
    reopen_record,
    write_record,
)
from task.errors import ConfigError, RunError

END_SECONDS = 15.0


def run_on_sites(place: CoordinatorPlace, words: Sequence[str]) -> Path:
    """Submit an experiment, print its progress until it ends, and return its run directory.

    If this process is killed, the run continues under the coordinator's SuperLink.

    Raises:
        ConfigError: an override is wrong, or the experiment has no sites; nothing was submitted.
        RunError: the run failed, or the SuperLink has ended; the record has status ``failed``.
        InterruptedRunError: Ctrl-C ended the run; the text says how to continue it.
    """
    require_coordinator(place)
    words = whole_words(words, place.runs)
    experiment = compose_experiment(words)
    if experiment.output_dir is None:
        experiment = experiment.model_copy(update={"output_dir": str(place.runs)})
    if not experiment.partitioner().sites:
        allowed = "sites train on their own data: partition=sites partition.names=[a,b]"
        raise ConfigError("partition", experiment.partition["name"], allowed)
    directory = plan_run_directory(experiment)
    position, output = log_length(directory), place.flower / "run.log"
    print(f"record {directory}\nstarting Flower, which takes a while ...", flush=True)
    placed = experiment.placed(directory, resume=bool(experiment.resume))
    with refuse_unusable(place.flower), output.open("w") as stream:
        command = run_command(place.flower / "run.toml", placed, words)
        if experiment.resume:
            reopen_record(directory)
        client = start(command, place.flower, place.flower, stream)
    onward = f"; continue it with: univarfl deploy run {place.directory} resume={directory}"
    try:
        for line in follow(
            directory, lambda: client.poll() is None or is_held(directory), position
        ):
            print(line, flush=True)
    except KeyboardInterrupt:
        end_run(place, directory)
        raise InterruptedRunError(onward if has_record(directory) else "") from None
    finally:
        stop([client])
    if unfinished(directory):
        close_record(directory, "the SuperLink ended, and the run with it")
    if not has_record(directory):
        raise RunError(f"Flower did not start the run: {first_exception(output)} (see {output})")
    record = read_record(directory)
    if record["status"] != "completed":
        log = directory / "run.log"
        raise RunError(f"the run failed: {record['reason']}; see {log}{onward}")
    return directory


def has_record(directory: Path) -> bool:
    """Whether the ServerApp has started a record in a run directory."""
    return (directory / "run.json").exists()


def require_coordinator(place: CoordinatorPlace) -> None:
    """Refuse a directory whose coordinator is not running.

    Raises:
        ConfigError: no coordinator was ever started with this directory.
        RunError: its SuperLink does not answer.
    """
    start_it = f"start it with: univarfl deploy coordinator {place.directory}"
    try:
        config = tomllib.loads(place.connection.read_text())
        address = config["superlink"][CONNECTION]["address"]
    except (OSError, ValueError, KeyError):
        allowed = f"no coordinator was started with this directory; {start_it}"
        raise ConfigError("coordinator", place.directory, allowed) from None
    try:
        is_healthy(address, place.authority)
    except OSError:
        raise RunError(f"no coordinator answers at {address}; {start_it}") from None


def end_run(place: CoordinatorPlace, directory: Path) -> None:
    """Stop a run with Flower's command and close its record; ignore Ctrl-C meanwhile."""
    print("\nstopping the run ...", flush=True)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        if has_record(directory):
            run_id = read_record(directory).get("engine", {}).get("run_id", "")
            run_to_end(["flwr", "stop", run_id, CONNECTION], place.flower)
            wait_until_released(directory)
            record = read_record(directory)
            if record["status"] != "completed":
                write_record(directory, record | {"status": "failed", "reason": INTERRUPTED})
    finally:
        signal.signal(signal.SIGINT, before)


def wait_until_released(directory: Path) -> None:
    """Wait until no process holds the run directory, for at most `END_SECONDS`."""
    deadline = time.monotonic() + END_SECONDS
    while is_held(directory) and time.monotonic() < deadline:
        time.sleep(0.2)
