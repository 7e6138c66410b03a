"""What ``univarfl train`` would do, without doing it."""

import logging
import os
from collections.abc import Iterator

from server_app.config.experiment import Experiment
from server_app.rounds.after.base import stage_of
from server_app.rounds.clock.base import clock_of
from server_app.runs.directory import runs_directory
from task.errors import ConfigError
from task.given_weights import PRETRAINED, given_weights
from task.training.device import choose_device
from univarfl.engines.cluster import (
    ADDRESS,
    machines,
    require_allowed_workers,
    require_reachable_cluster,
    this_machine,
)
from univarfl.engines.early import command_workers
from univarfl.engines.layout import Layout
from univarfl.engines.superlink import rays_root

logger = logging.getLogger("univarfl")


def check_machine(experiment: Experiment) -> None:
    """Refuse an experiment that this machine cannot run.

    Raises:
        ConfigError, DeviceError: the text says what is missing.
    """
    local = experiment.local()
    if local.partitioner().sites:
        allowed = "sites are real machines; see 'univarfl deploy --help'"
        raise ConfigError("partition", "sites", allowed)
    if experiment.engine == "flower":
        require_reachable_cluster()
        rays_root()
    elif os.environ.get(ADDRESS):
        logger.warning("%s is set, and this run is not on the cluster: add engine=flower", ADDRESS)
    if workers := experiment.federation.workers:
        available = machines() if experiment.engine == "flower" else this_machine()
        require_allowed_workers(workers, available.cpus)
    choose_device(local.device)


def plan_lines(experiment: Experiment) -> Iterator[str]:
    """Yield lines that say what would be run; the machine and the data's files are checked.

    The images are not read, so a damaged image and a partition that does not fit are not found.

    Raises:
        ConfigError, DeviceError: the run would be refused.
    """
    check_machine(experiment)
    source = experiment.source()
    if not source.needs_download():
        source.check_files()
    directory = runs_directory(experiment)
    if experiment.resume:
        from server_app.runs.resuming.checks import check_resumable  # noqa: PLC0415  (rarely used)

        check_resumable(directory / str(experiment.run_id), experiment)
    name = experiment.run_id or f"TIME-{experiment.data['name']}-{experiment.method['name']}-..."
    resumed = "resume" if experiment.resume else "new run"
    clients = f"{experiment.participants} of {experiment.num_clients} clients in each"
    yield f"{resumed:<10}{directory / name}"
    yield f"data      {experiment.data['name']}, divided by {experiment.partition['name']}"
    if given := given_weights(experiment.model):
        origin = experiment.model.get(PRETRAINED, {"name": given.path})
        yield f"weights   {origin['name']}, SHA-256 {given.sha256[:12]}"
    yield f"training  {experiment.method['name']}, model {experiment.model['name']}"
    yield f"rounds    {experiment.rounds}, {clients}, {experiment.local_epochs} local epochs"
    yield f"strategy  {experiment.strategy['name']}, guard {experiment.guard['name']}"
    if clock_of(experiment).virtual or experiment.participation["name"] != "uniform":
        policy = experiment.participation["name"]
        yield f"clients   clock {experiment.clock['name']}, participation {policy}"
    if experiment.privacy.private or experiment.secure.masked:
        unit = experiment.privacy.unit
        noise = f"noise for each {unit}" if unit else "no noise"
        masks = "with masks" if experiment.secure.masked else "without masks"
        yield f"privacy   {noise}, updates {masks}"
    if experiment.optim.varies or experiment.last_batch != "merge":
        warm = f" after {n} rounds of warm-up" if (n := experiment.optim.warmup_rounds) else ""
        rate = f"{experiment.optim.schedule} rate{warm}"
        yield f"protocol  {rate}, last batch {experiment.last_batch}"
    if stage_of(experiment).changes_model:
        yield f"after     {experiment.after['name']}"
    layout = Layout.of(experiment)
    workers = (
        layout.ray_actors(machines())
        if experiment.engine == "flower"
        else layout.own_processes(command_workers(layout))
    )
    on = f"{workers} worker{'s' if workers > 1 else ''} on {choose_device(experiment.device)}"
    yield f"engine    {experiment.engine}, {on}"
    if source.needs_download():
        yield f"download  to {experiment.data['root']}"
    yield "nothing was run; 'univarfl config' with the same words shows every setting"
