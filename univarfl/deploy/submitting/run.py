"""One run on the sites that have joined, submitted at the coordinator and followed to its end."""

import difflib
import shlex
import signal
import ssl
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path

from server_app.config.composition import compose_experiment
from server_app.config.experiment import Experiment
from server_app.config.resuming import whole_words
from server_app.flower.lease import hold_lease
from server_app.runs.directory import plan_run_directory
from server_app.runs.records.run_record import read_record
from task.errors import ConfigError, RunError
from univarfl.deploy.places import CoordinatorPlace
from univarfl.deploy.submitting.submission import Submission, has_record
from univarfl.engines.claim import claimed
from univarfl.engines.errors import InterruptedRunError
from univarfl.engines.restarts import Restarts
from univarfl.flower.health import is_healthy
from univarfl.flower.programs import CONNECTION
from univarfl.flower.run_log import first_exception
from univarfl.records.checkpoints import last_round
from univarfl.records.status import close_record, is_held, mark_interrupted

END_SECONDS = 30.0
RETURN_SECONDS = 300.0  # how long a run waits for a coordinator that has gone
LOOK_SECONDS = 1.0


def run_on_sites(place: CoordinatorPlace, words: Sequence[str]) -> Path:
    """Submit an experiment, print its progress until it ends, and return its run directory.

    If the ServerApp or the SuperLink dies, the run goes on after its last full round. If this
    process ends, however it ends, the run ends too.

    Raises:
        ConfigError: an override is wrong, or the experiment has no sites; nothing was submitted.
        RunError: the run failed, or the coordinator did not come back; the record has status
            ``failed``.
        InterruptedRunError: a person ended the run; the text says how to continue it.
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
    with claimed(directory, resume=bool(experiment.resume)):
        return run_claimed(place, directory, experiment, words)


def run_claimed(
    place: CoordinatorPlace, directory: Path, experiment: Experiment, words: Sequence[str]
) -> Path:
    """Submit an experiment whose run directory this command holds; see `run_on_sites`."""
    for line in unknown_sites(place, experiment.partitioner().sites):
        print(line, flush=True)
    print(f"record {directory}\nstarting Flower, which takes a while ...", flush=True)
    words_onward = shlex.join([str(place.directory), f"resume={directory}"])
    onward = f"; continue it with: univarfl deploy run {words_onward}"
    try:
        output = run_to_result(place, directory, experiment, words)
    except KeyboardInterrupt:
        raise InterruptedRunError(onward if has_record(directory) else "") from None
    except RunError as error:
        close_record(directory, str(error))
        raise RunError(f"{error}{onward if has_record(directory) else ''}") from None
    if not has_record(directory):
        raise RunError(f"Flower did not start the run: {first_exception(output)} (see {output})")
    close_record(directory, "its ServerApp or SuperLink ended, and the run with it")
    record = read_record(directory)
    if not record.completed:
        log = directory / "run.log"
        if not last_round(directory):
            onward = ""  # nothing is lost, and other settings may be the cure
        raise RunError(f"the run failed: {record.reason}; see {log}{onward}")
    return directory


def unknown_sites(place: CoordinatorPlace, names: Sequence[str]) -> list[str]:
    """Return a warning about each site of the experiment that has no key at the coordinator."""
    known = sorted(path.stem for path in place.sites.glob("*.pub"))
    lines = []
    for name in sorted(set(names) - set(known)):
        similar = difflib.get_close_matches(name, known, 1)
        hint = f"; did you mean {similar[0]}?" if similar else ""
        lines.append(f"warning: site {name} has no key in {place.sites}{hint}")
    return lines


def run_to_result(
    place: CoordinatorPlace, directory: Path, experiment: Experiment, words: Sequence[str]
) -> Path:
    """Submit a run, and again while it has to go on; return the output of ``flwr run``.

    Raises:
        RunError: the coordinator did not come back.
    """
    restarts, reached = Restarts(), last_round(directory)
    with hold_lease(place.flower) as lease:
        while True:
            submission = Submission(place, directory, experiment, words, lease)
            try:
                for line in submission.lines():
                    print(line, flush=True)
                if submission.is_decided():
                    return submission.output
                wait_for_coordinator(place)
                reason = submission.reason_to_restart()
                before, reached = reached, last_round(directory)
                if not reason or not restarts.allow(progress=reached > before):
                    return submission.output
                submission.stop()
            except KeyboardInterrupt:
                end_run(submission, directory)
                raise
            finally:
                submission.close()
            wait_until_released(directory)
            print(f"{reason}; the run goes on after round {reached}", flush=True)


def coordinator_address(place: CoordinatorPlace) -> str:
    """Return the address at which the coordinator's programs reach its SuperLink.

    Raises:
        ConfigError: no coordinator was ever started with this directory.
    """
    try:
        config = tomllib.loads(place.connection.read_text(encoding="utf-8"))
        return str(config["superlink"][CONNECTION]["address"])
    except (OSError, ValueError, KeyError):
        allowed = f"no coordinator was started with this directory; {start_advice(place)}"
        raise ConfigError("coordinator", place.directory, allowed) from None


def start_advice(place: CoordinatorPlace) -> str:
    """Return what to do if there is no coordinator."""
    return f"start it with: univarfl deploy coordinator {shlex.quote(str(place.directory))}"


def require_coordinator(place: CoordinatorPlace) -> None:
    """Refuse a directory whose coordinator is not running.

    Raises:
        ConfigError: no coordinator was ever started with this directory.
        RunError: its SuperLink does not answer, or its certificate is refused.
    """
    address = coordinator_address(place)
    try:
        is_healthy(address, place.authority)
    except OSError as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise RunError(
                f"the certificate of the coordinator at {address} is refused: "
                f"{reason.verify_message}; start 'univarfl deploy coordinator' again if its keys "
                "are new, and make new ones if they have expired"
            ) from None
        raise RunError(f"no coordinator answers at {address}; {start_advice(place)}") from None


def wait_for_coordinator(place: CoordinatorPlace) -> None:
    """Wait until the coordinator's SuperLink answers, for at most `RETURN_SECONDS`.

    Raises:
        RunError: it does not answer.
    """
    deadline, said = time.monotonic() + RETURN_SECONDS, False
    while True:
        try:
            return require_coordinator(place)  # its address may be another one now
        except RunError:
            if time.monotonic() >= deadline:
                raise
        if not said:
            print("the SuperLink is gone; waiting for the coordinator ...", flush=True)
            said = True
        time.sleep(LOOK_SECONDS)


def end_run(submission: Submission, directory: Path) -> None:
    """Stop a run and close its record; ignore Ctrl-C meanwhile."""
    print("\nstopping the run ...", flush=True)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        submission.stop()
        wait_until_released(directory)
        mark_interrupted(directory)
    finally:
        signal.signal(signal.SIGINT, before)


def wait_until_released(directory: Path) -> None:
    """Wait until no process holds the run directory, for at most `END_SECONDS`."""
    deadline = time.monotonic() + END_SECONDS
    while is_held(directory) and time.monotonic() < deadline:
        time.sleep(0.2)
