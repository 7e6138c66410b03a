"""``engine=flower``: one run under Flower with Ray's virtual clients, watched from the outside.

Flower's exit codes do not tell whether a run failed, so the record does: the ServerApp writes its
status last of all.
"""

import json
import math
import re
import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from server_app.engines.cluster import Machines, machines
from server_app.engines.superlink import SuperLink
from server_app.experiment import Experiment
from server_app.participation import participant_count
from server_app.run_record import read_record

APP = Path(__file__).resolve().parent.parent.parent
POLL_SECONDS = 0.2
EXCEPTION = re.compile(r"^[\w.]*(Error|Exception): .*", re.MULTILINE)
LOG_LINE = re.compile(r"^\d{4}-\d\d-\d\d \S+ (?P<level>[A-Z]+) univarfl (?P<message>.*)")


class EngineError(RuntimeError):
    """Flower ended the run without a word from our ServerApp."""


def run_flower(
    experiment: Experiment, overrides: Sequence[str], directory: Path, superlink: SuperLink
) -> None:
    """Run the experiment through Flower, and print its progress until it has ended.

    The SuperLink ends with it: nothing of the run is alive when this returns, and its record can be
    closed.

    Args:
        experiment: the checked configuration.
        overrides: the words for the ServerApp to compose it from.
        directory: the run directory that the ServerApp will make.
        superlink: where to run it; started, if not yet ready; ended afterwards.

    Raises:
        EngineError, FlowerError: Flower did not get as far as the ServerApp's first word.
    """
    print("starting Flower and its workers, which takes a while ...", flush=True)
    output = superlink.home / "run.log"
    told = log_length(directory)
    command = run_command(superlink.home / "run.toml", overrides)
    federation = federation_config(experiment, machines())
    try:
        superlink.wait_until_ready()
        with output.open("w") as stream:
            client = superlink.popen([*command, "--federation-config", federation], stream)
        for line in follow(directory, lambda: client.poll() is None, told):
            print(line, flush=True)
        if unfinished(directory):
            directory.mkdir(exist_ok=True)
            log = Path(shutil.copy(output, directory / "flower.log"))
            raise EngineError(f"Flower ended it: {first_exception(log)} (all of it in {log})")
    finally:
        superlink.end()


def run_command(config: Path, words: Sequence[str]) -> list[str]:
    """Flower's command that submits these words and tells how it goes; written to `config`."""
    config.write_text(f"overrides = {json.dumps(shlex.join(words))}\n")
    return ["flwr", "run", str(APP), "--stream", "--run-config", str(config)]


def log_length(directory: Path) -> int:
    """How much a run's log holds already, if the run is resumed."""
    log = directory / "run.log"
    return log.stat().st_size if log.exists() else 0


def federation_config(experiment: Experiment, found: Machines) -> str:
    """One SuperNode and one Ray actor per worker, each with its share of the GPUs, if any.

    A cluster that runs already has its own number of CPUs, and Flower an actor for each.
    """
    gpus = 0 if experiment.device == "cpu" else found.gpus
    participants = participant_count(experiment.num_clients, experiment.rho)
    workers = min(experiment.federation.workers or gpus or found.cpus, participants)
    share = 0.0
    if gpus:
        # A worker's share lies on one GPU: so many share each, and it is rounded down to fit.
        share = math.floor(1000 / math.ceil(workers / gpus)) / 1000
    ray = "" if found.running else f"init-args-num-cpus={workers} "
    return (
        f"num-supernodes={workers} {ray}client-resources-num-cpus=1 "
        f"client-resources-num-gpus={share}"
    )


def follow(directory: Path, alive: Callable[[], bool], position: int) -> Iterator[str]:
    """The run's log as a person reads it, until its record is closed or nobody is at work on it.

    Args:
        directory: the run's.
        alive: whether somebody is.
        position: how much of the log was there before, if the run is resumed.
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
    """A line of ``run.log`` without its head; empty for what is not meant for the console."""
    found = LOG_LINE.match(line)
    if found is None:
        return ""
    return (
        found["message"]
        if found["level"] == "INFO"
        else f"{found['level'].lower()}: {found['message']}"
    )


def unfinished(directory: Path) -> bool:
    """Whether the ServerApp left no word on how its run ended."""
    if not (directory / "run.json").exists():
        return True
    return bool(read_record(directory)["status"] == "running")


def first_exception(log: Path) -> str:
    """The first exception that a log names: the cause of those that follow it."""
    text = log.read_text(errors="replace")
    found = EXCEPTION.search(text)
    return found[0] if found else "without naming a reason"
