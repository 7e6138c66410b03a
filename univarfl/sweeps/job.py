"""One run of a sweep, in a process that ends when the sweep ends."""

import multiprocessing
import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from server_app.config.recorded_words import recorded_words
from server_app.config.rules import read_experiment
from server_app.runs.identity import code_of, identity_of, shared_hash
from server_app.runs.records.record import INTERRUPTED
from server_app.runs.records.run_record import read_record
from server_app.runs.records.tables import RecordError, count_rounds
from task.errors import RunError
from task.fingerprint import fingerprint
from univarfl.engines.local.processes import CONTEXT
from univarfl.engines.train import train_experiment
from univarfl.records.status import close_record
from univarfl.sweeps.cells import Cell
from univarfl.terminal.streams import prepare_streams

GRACE_SECONDS = 30.0

# Hash the code when it is imported: every run of the sweep executes what was imported here.
fingerprint(), shared_hash()


class Job:
    """The process of a cell's run.

    Args:
        cell: the cell; its experiment is not None.
        directory: the run directory; it exists only if the run is resumed.
        log: the file for what the run prints.
        resume: whether to resume the run.
    """

    def __init__(self, cell: Cell, directory: Path, log: Path, resume: bool) -> None:
        assert cell.experiment is not None
        self.cell = cell
        self.directory = directory
        self.log = log
        self._answer, answer = CONTEXT.Pipe(duplex=False)
        experiment = cell.experiment.placed(directory, resume=resume)
        self.process: ForkServerProcess = CONTEXT.Process(
            target=run,
            args=(experiment.model_dump_json(), cell.words, cell.identity, log, answer),
        )
        self.process.start()
        answer.close()

    def rounds(self) -> int:
        """Return how many rounds it has completed."""
        return count_rounds(self.directory)

    def ask_to_end(self) -> None:
        """Interrupt the run, as Ctrl-C does; it closes its record."""
        self.process.terminate()

    def end(self) -> None:
        """Wait until the process has ended; kill it after `GRACE_SECONDS`."""
        self.process.join(GRACE_SECONDS)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()

    def reason(self) -> str:
        """Wait for the process, and return why the run failed; empty if it is completed."""
        self.process.join()
        with suppress(EOFError, OSError):
            return str(self._answer.recv())
        code = self.process.exitcode or 0
        how = (
            f"was killed ({signal.Signals(-code).name})" if code < 0 else f"ended with code {code}"
        )
        reason = f"its process {how}; see {self.log}"
        with suppress(OSError, ValueError):
            close_record(self.directory, reason)
        return reason

    def accuracy(self) -> str:
        """Return its last accuracy as text."""
        try:
            split, accuracy = next(read_record(self.directory).results.accuracies())
            return f"{split} {accuracy:.3f}"
        except (RecordError, StopIteration):
            return "but its record cannot be read"


def run(
    experiment: str,
    words: Sequence[str],
    identity: str,
    log: Path,
    answer: Connection,
) -> None:
    """Train in this process, and send the reason of a failure, or nothing.

    Args:
        experiment: the experiment as JSON, with its run directory.
        words: the words it was composed from.
        identity: the identity that the sweep expects; see `identity_of`.
        log: the file that takes what the run prints.
        answer: where to send the reason.
    """
    prepare_streams()
    with log.open("a") as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the sweep gets Ctrl-C too, and ends this run
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    threading.Thread(target=follow_the_parent, daemon=True).start()
    try:
        cell = read_experiment(experiment)
        print("univarfl train", shlex.join(recorded_words(words, cell)), flush=True)
        config = cell.model_dump()
        if identity_of(config, code_of(config)) != identity:
            raise RunError("the code has changed since the sweep began; start it again")
        train_experiment(cell, words)
    except KeyboardInterrupt:
        answer.send(INTERRUPTED)
    except Exception as error:
        answer.send(str(error) or type(error).__name__)
    else:
        answer.send("")


def follow_the_parent() -> None:
    """End this process when the process of the sweep ends, even if that was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)
