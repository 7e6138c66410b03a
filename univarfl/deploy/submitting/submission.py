"""One submission of a run to the SuperLink, followed until its ServerApp has ended."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from server_app.config.experiment import Experiment
from server_app.runs.directory import clear
from server_app.runs.records.run_record import RunRecord, read_record
from univarfl.deploy.places import CoordinatorPlace, refuse_unusable
from univarfl.flower import bundling
from univarfl.flower.output import FAILED, NO_HEARTBEAT, STOPPED
from univarfl.flower.programs import installed_program, start, stop
from univarfl.flower.run_command import remove_app, run_command
from univarfl.flower.run_log import follow, log_length
from univarfl.flower.runs import RunStatus, run_status, stop_run, submitted_run
from univarfl.records.status import is_held, mark_interrupted, reopen_record

SERVER_APP_GONE = "the ServerApp has ended without a result"
NOT_STARTED = "Flower did not start the run"


class Submission:
    """A run that was submitted with ``flwr run``.

    The ServerApp holds the run directory while it works. So its end is noticed at once, whatever
    Flower knows of it; Flower itself misses a killed ServerApp after a minute.

    Args:
        place: the coordinator's directory.
        directory: the run directory.
        experiment: the experiment; it is resumed if there is a record.
        words: the words it was composed from.
        lease: the path of the lease with which the run ends.
    """

    def __init__(
        self,
        place: CoordinatorPlace,
        directory: Path,
        experiment: Experiment,
        words: Sequence[str],
        lease: Path,
    ) -> None:
        self._place, self._directory = place, directory
        self._files = place.flower / directory.name  # two runs may be submitted at once
        self.output = self._files / "run.log"
        self._begun = False
        resumed = has_record(directory)
        if not resumed:
            clear(directory)  # of a ServerApp that was killed at once
        self._position = log_length(directory)
        placed = experiment.placed(directory, resume=resumed)
        with refuse_unusable(self._files):
            self._files.mkdir(exist_ok=True)
            program, *rest = run_command(place.flower, self._files, placed, words, str(lease))
            command = [sys.executable, "-P", bundling.__file__, installed_program(program), *rest]
            if resumed:
                reopen_record(directory)
            with self.output.open("w") as stream:
                self._client = start(command, place.flower, place.flower, stream)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the run's log for the console until the run ends."""
        yield from follow(self._directory, self._is_alive, self._position)

    def _is_alive(self) -> bool:
        held = is_held(self._directory)
        self._begun = self._begun or held
        return held or (not self._begun and self._client.poll() is None)

    def close(self) -> None:
        """End ``flwr run``; the run itself goes on."""
        stop([self._client])
        remove_app(self._files)

    def stop(self) -> None:
        """Stop the run, so that Flower drops it and its messages."""
        stop_run(self._place.flower, submitted_run(self.output))

    def is_decided(self) -> bool:
        """Whether the run is completed, or failed for a reason of its own."""
        return is_decided(self._record())

    def reason_to_restart(self) -> str:
        """Return why an undecided run has to go on; empty if it must not.

        The SuperLink must answer. A run that a person stopped is marked so.
        """
        run_id = submitted_run(self.output)
        status = run_status(self._place.flower, run_id) if run_id else None
        if status and status.text == STOPPED:
            mark_interrupted(self._directory)
        return reason_to_restart(self._record(), status)

    def _record(self) -> RunRecord | None:
        return read_record(self._directory) if has_record(self._directory) else None


def is_decided(recorded: RunRecord | None) -> bool:
    """Whether a run's record, if there is one, says how the run ended by itself."""
    if recorded is None:
        return False
    return recorded.completed or (recorded.status == "failed" and not recorded.restartable)


def reason_to_restart(recorded: RunRecord | None, status: RunStatus | None) -> str:
    """Return why a run has to go on; empty if its end was a decision.

    Args:
        recorded: its record; None if the ServerApp has not written one.
        status: what Flower says of it; None if it was not submitted.
    """
    if status is None:
        return NOT_STARTED
    if is_decided(recorded) or status.text == STOPPED:
        return ""
    if not recorded and status.text == FAILED and NO_HEARTBEAT not in status.details:
        return ""  # Flower could not start the ServerApp
    return (recorded.reason if recorded else "") or SERVER_APP_GONE


def has_record(directory: Path) -> bool:
    """Whether the ServerApp has started a record in a run directory."""
    return (directory / "run.json").exists()
