"""``engine=flower``: one run under Flower, with virtual clients in Ray's workers.

Flower's exit code is 0 even if a run failed. The record has the result: the ServerApp writes its
status last.
"""

import logging
import math
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from server_app.config.experiment import Experiment
from server_app.config.run_config import to_run_config, to_toml
from server_app.engines.cluster import Machines, machines
from server_app.engines.superlink import SuperLink
from server_app.rounds.sampling import participant_count
from server_app.runs.records.record import read_record

APP = Path(__file__).resolve().parent.parent.parent
POLL_SECONDS = 0.2
EXCEPTION = re.compile(r"^[\w.]*(Error|Exception): .*", re.MULTILINE)
LOG_LINE = re.compile(r"^\d{4}-\d\d-\d\d \S+ (?P<level>[A-Z]+) univarfl (?P<message>.*)")

logger = logging.getLogger("univarfl")


class EngineError(RuntimeError):
    """Flower ended the run before our ServerApp could record a result."""


def run_flower(
    experiment: Experiment, words: Sequence[str], directory: Path, superlink: SuperLink
) -> None:
    """Run the experiment under Flower and print its progress until it ends.

    The SuperLink is ended too: no process of the run is alive when this returns.

    Args:
        experiment: the experiment, with its run directory.
        words: the words it was composed from.
        directory: the run directory that the ServerApp will make.
        superlink: runs the experiment; started, perhaps not ready yet; ended afterwards.

    Raises:
        EngineError, FlowerError: Flower or the ServerApp ended without a result.
    """
    logger.info("starting Flower and its workers, which takes a while ...")
    output = superlink.home / "run.log"
    position = log_length(directory)
    command = run_command(superlink.home / "run.toml", experiment, words)
    federation = federation_config(experiment, machines())
    try:
        superlink.wait_until_ready()
        with output.open("w") as stream:
            client = superlink.popen([*command, "--federation-config", federation], stream)
        for line in follow(directory, lambda: client.poll() is None, position):
            logger.info("%s", line)
        if unfinished(directory):
            directory.mkdir(exist_ok=True)
            log = Path(shutil.copy(output, directory / "flower.log"))
            raise EngineError(f"Flower ended the run: {first_exception(log)} (see {log})")
    finally:
        superlink.end()


def run_command(
    config: Path, experiment: Experiment, words: Sequence[str], lease: str = ""
) -> list[str]:
    """Write the run-config to `config`; return the command that submits and follows a run."""
    config.write_text(to_toml(to_run_config(experiment, words, lease)))
    return ["flwr", "run", str(APP), "--stream", "--run-config", str(config)]


def log_length(directory: Path) -> int:
    """Return the size of a resumed run's log in bytes; 0 for a new run."""
    log = directory / "run.log"
    return log.stat().st_size if log.exists() else 0


def federation_config(experiment: Experiment, found: Machines) -> str:
    """Return Flower's federation settings: one SuperNode and one Ray actor for each worker.

    Each worker has an equal share of the GPUs, if there are any. On a Ray cluster that already
    runs, the number of CPUs is the cluster's, and Flower starts one actor for each CPU.
    """
    gpus = 0 if experiment.device == "cpu" else found.gpus
    participants = participant_count(experiment.num_clients, experiment.rho)
    workers = min(experiment.federation.workers or gpus or found.cpus, participants)
    share = 0.0
    if gpus:
        # A worker uses one GPU only, so round up the workers per GPU and round down the share.
        share = math.floor(1000 / math.ceil(workers / gpus)) / 1000
    ray = "" if found.running else f"init-args-num-cpus={workers} "
    return (
        f"num-supernodes={workers} {ray}client-resources-num-cpus=1 "
        f"client-resources-num-gpus={share}"
    )


def follow(directory: Path, alive: Callable[[], bool], position: int) -> Iterator[str]:
    """Yield the lines of a run's log for the console until the run ends.

    Args:
        directory: the run directory.
        alive: whether a process still works on the run.
        position: the number of bytes of the log to skip, as a resumed run wrote them before.
    """
    log = directory / "run.log"
    running = True
    while running:
        running = alive() and unfinished(directory)
        if log.exists():
            with log.open() as file:
                file.seek(position)
                text = file.read()
            complete = text[: text.rfind("\n") + 1]
            position += len(complete.encode())
            yield from filter(None, map(readable, complete.splitlines()))
        if running:
            time.sleep(POLL_SECONDS)


def readable(line: str) -> str:
    """Return a line of ``run.log`` without its time stamp; empty if it is not for the console."""
    found = LOG_LINE.match(line)
    if found is None:
        return ""
    return (
        found["message"]
        if found["level"] == "INFO"
        else f"{found['level'].lower()}: {found['message']}"
    )


def unfinished(directory: Path) -> bool:
    """Whether the record has no result yet."""
    if not (directory / "run.json").exists():
        return True
    return bool(read_record(directory)["status"] == "running")


def first_exception(log: Path) -> str:
    """Return the first exception in a log, which caused the later ones."""
    text = log.read_text(errors="replace")
    found = EXCEPTION.search(text)
    return found[0] if found else "its log names no exception"
