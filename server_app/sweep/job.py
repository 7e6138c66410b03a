"""One run of a sweep in a process of its own, which dies with the sweep."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from server_app.composition import compose_experiment
from server_app.engines.superlink import superlink_of
from server_app.identity import code_hash, identity_of
from server_app.quoting import quoted
from server_app.resuming import whole_words
from server_app.run_record import INTERRUPTED, close_record, read_record, rounds_done
from server_app.sweep.cells import Cell
from server_app.sweep.forking import CONTEXT
from server_app.train import train_experiment
from task.errors import RunError
from task.fingerprint import fingerprint

GRACE_SECONDS = 30.0

# Of the code as it is imported here, which is what every run of the sweep will execute.
fingerprint(), code_hash()


class Job:
    """A cell's run while it goes on.

    Args:
        cell: what to run; its experiment is not None.
        directory: the run directory, which is there already if the run is resumed.
        log: where what the run prints goes.
        resume: whether it is.
    """

    def __init__(self, cell: Cell, directory: Path, log: Path, resume: bool) -> None:
        assert cell.experiment is not None
        self.cell = cell
        self.directory = directory
        self.log = log
        self._answer, told = CONTEXT.Pipe(duplex=False)
        place = [f"output_dir={quoted(str(directory.parent))}", f"run_id={directory.name}"]
        words = whole_words([f"resume={directory}"]) if resume else [*cell.words, *place]
        self.process: ForkServerProcess = CONTEXT.Process(
            target=run, args=(words, cell.identity, log, told)
        )
        self.process.start()
        told.close()

    def rounds(self) -> int:
        """How many rounds it has behind it."""
        return rounds_done(self.directory)

    def ask_to_end(self) -> None:
        """Have it stop as Ctrl-C does, its record closed."""
        self.process.terminate()

    def end(self) -> None:
        """Wait until it has stopped, and make it, if it takes too long."""
        self.process.join(GRACE_SECONDS)
        if self.process.is_alive():
            self.process.kill()

    def reason(self) -> str:
        """Why it failed, once it has ended; empty if it did not."""
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
        """Its result in a few words."""
        try:
            results = read_record(self.directory)["results"]
            split = "test" if "accuracy" in results["test"] else "validation"
            return f"{split} {results[split]['accuracy']:.3f}"
        except (OSError, ValueError, KeyError):
            return "but its record cannot be read"


def run(words: list[str], identity: str, log: Path, answer: Connection) -> None:
    """Train in this process, and tell why it failed, or nothing."""
    with log.open("a") as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
    print("univarfl train", *words, flush=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the sweep too, which tells us
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    threading.Thread(target=follow_the_parent, daemon=True).start()
    try:
        experiment = compose_experiment(words)
        if identity_of(experiment.model_dump(), code_hash()) != identity:
            raise RunError("conf/ has changed since the sweep began; start it again")
        with superlink_of(experiment.engine) as superlink:
            train_experiment(experiment, words, superlink)
    except KeyboardInterrupt:
        answer.send(INTERRUPTED)
    except Exception as error:
        answer.send(str(error) or type(error).__name__)
    else:
        answer.send("")


def follow_the_parent() -> None:
    """End this process when the sweep's is gone, even if that was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)
