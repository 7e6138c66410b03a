"""One run on the sites that have joined, submitted and watched at the coordinator."""

import signal
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path

from server_app.composition import compose_experiment
from server_app.deploy.coordinator import flwr, healthy
from server_app.deploy.places import CONNECTION, CoordinatorPlace
from server_app.engines.flower import first_exception, follow, log_length, run_command, unfinished
from server_app.engines.processes import STOP_SECONDS, start, stop
from server_app.failures import InterruptedRunError
from server_app.quoting import quoted
from server_app.resuming import whole_words
from server_app.run_directory import is_held, plan_run_directory
from server_app.run_record import (
    INTERRUPTED,
    close_record,
    read_record,
    reopen_record,
    write_record,
)
from task.errors import ConfigError, RunError


def run_on_sites(place: CoordinatorPlace, words: Sequence[str]) -> Path:
    """Submit an experiment, print its progress until it has ended; its run directory.

    Raises:
        ConfigError: a word is wrong, or the experiment has no sites; nothing was submitted.
        RunError: the run failed, or the SuperLink is gone; its record has status ``failed``.
        InterruptedRunError: a person ended it, and with it the run; the text says how to go on.
    """
    if not (place.flower / "config.toml").exists():
        allowed = "no coordinator was started here: univarfl deploy coordinator DIR"
        raise ConfigError("coordinator", place.directory, allowed)
    find_coordinator(place)
    words = whole_words([f"output_dir={quoted(str(place.runs))}", *words])
    experiment = compose_experiment(words)
    if not experiment.divider().sites:
        allowed = "sites train on their own data: partition=sites partition.names=[a,b]"
        raise ConfigError("partition", experiment.partition["name"], allowed)
    directory = plan_run_directory(experiment)
    if experiment.resume:
        reopen_record(directory)
    told, output = log_length(directory), place.flower / "run.log"
    print(f"record {directory}\nstarting Flower, which takes a while ...", flush=True)
    named = [*words, f"output_dir={quoted(str(directory.parent))}", f"run_id={directory.name}"]
    command = run_command(place.flower / "run.toml", named)  # the default connection is ours
    with output.open("w") as stream:
        client = start(command, place.flower, place.flower, stream)
    try:
        for line in follow(directory, lambda: client.poll() is None or is_held(directory), told):
            print(line, flush=True)
    except KeyboardInterrupt:
        end_run(place, directory)
        onward = f"; go on with it: univarfl deploy run {place.directory} resume={directory}"
        begun = (directory / "run.json").exists()
        raise InterruptedRunError(onward if begun else "") from None
    finally:
        stop([client])
    if unfinished(directory):
        close_record(directory, "the SuperLink has ended, and the run with it")
    if not (directory / "run.json").exists():
        raise RunError(f"Flower did not start the run: {first_exception(output)} (see {output})")
    record = read_record(directory)
    if record["status"] != "completed":
        raise RunError(
            f"the run failed: {record['reason']}; see {directory / 'run.log'}; go on with it by: "
            f"univarfl deploy run {place.directory} resume={directory}"
        )
    return directory


def find_coordinator(place: CoordinatorPlace) -> None:
    """Make sure that the SuperLink answers.

    Raises:
        RunError: it does not.
    """
    config = tomllib.loads((place.flower / "config.toml").read_text())
    address = config["superlink"][CONNECTION]["address"]
    try:
        healthy(address, place.authority)
    except OSError:
        raise RunError(
            f"no coordinator answers at {address}; start it: "
            f"univarfl deploy coordinator {place.directory}"
        ) from None


def end_run(place: CoordinatorPlace, directory: Path) -> None:
    """Have Flower stop a run, and close its record; a second Ctrl-C does not leave that undone."""
    print("\nstopping the run ...", flush=True)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        if (directory / "run.json").exists():
            run_id = read_record(directory).get("engine", {}).get("run_id", "")
            flwr(place, ["stop", run_id, CONNECTION])
            wait_for_end(directory)
            record = read_record(directory)
            if record["status"] != "completed":
                write_record(directory, record | {"status": "failed", "reason": INTERRUPTED})
    finally:
        signal.signal(signal.SIGINT, before)


def wait_for_end(directory: Path) -> None:
    """Wait until nobody is at work on a run, but not for ever."""
    deadline = time.monotonic() + STOP_SECONDS
    while is_held(directory) and time.monotonic() < deadline:
        time.sleep(0.2)
