"""``engine=flower``: one run under Flower, with virtual clients in Ray's workers.

Flower's exit code is 0 even if a run failed. The record has the result: the ServerApp writes its
status last.
"""

import logging
import shutil
from collections.abc import Sequence
from pathlib import Path

from server_app.config.experiment import Experiment
from univarfl.engines.cluster import Machines, machines
from univarfl.engines.layout import Layout
from univarfl.engines.superlink import PrivateSuperLink
from univarfl.flower.run_command import run_command
from univarfl.flower.run_log import first_exception, follow, log_length, unfinished

logger = logging.getLogger("univarfl")


class EngineError(RuntimeError):
    """Flower ended the run before our ServerApp could record a result."""


def run_flower(
    experiment: Experiment, words: Sequence[str], directory: Path, superlink: PrivateSuperLink
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
    command = run_command(superlink.home, superlink.home, experiment, words)
    federation = federation_config(experiment, machines())
    finished = False
    try:
        superlink.wait_until_ready()
        with output.open("w") as stream:
            client = superlink.popen([*command, "--federation-config", federation], stream)
        for line in follow(directory, lambda: client.poll() is None, position):
            logger.info("%s", line)
        finished = not unfinished(directory)
        if not finished:
            directory.mkdir(exist_ok=True)
            log = Path(shutil.copy(output, directory / "flower.log"))
            raise EngineError(f"Flower ended the run: {first_exception(log)} (see {log})")
    finally:
        superlink.end(at_once=finished)


def federation_config(experiment: Experiment, found: Machines) -> str:
    """Return Flower's federation settings: one SuperNode and one Ray actor for each worker.

    Each worker has an equal share of the GPUs, if there are any. If Ray runs already, Flower starts
    one actor for each of its CPUs.

    Args:
        experiment: what is run.
        found: the machines that train.
    """
    layout = Layout.of(experiment)
    workers = layout.ray_actors(found)
    ray = "" if found.running else f"init-args-num-cpus={workers} "
    return (
        f"num-supernodes={workers} {ray}client-resources-num-cpus=1 "
        f"client-resources-num-gpus={layout.gpu_share(found)}"
    )
