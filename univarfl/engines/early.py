"""What a run's processes need first, started while this process still imports PyTorch.

This file and what it imports import no PyTorch.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from task.machine.memory import available_bytes
from univarfl.engines.cluster import ADDRESS, may_have_gpus, this_machine
from univarfl.engines.layout import Layout
from univarfl.engines.local.processes import warm_up
from univarfl.engines.superlink import SuperLink

WORKER_MODULES = (
    "client_app.registration", "client_app.work_unit", "client_app.handlers",
    "univarfl.engines.local.worker_processes",
)  # fmt: skip


@contextmanager
def started_early(settings: Mapping[str, Any]) -> Iterator[SuperLink | None]:
    """Start a run's first processes, and end them with the context.

    Where there may be a GPU, nothing is started for workers that follow GPUs: PyTorch counts them.

    Args:
        settings: the settings of the run, which nobody has checked. Nothing is started for wrong
            ones.

    Yields:
        The SuperLink for the run, if its engine needs one.
    """
    layout = Layout.of_settings(settings)
    if layout is None or (layout.engine == "flower" and counts_gpus(layout)):
        yield None
    elif layout.engine == "flower":
        with superlink_for(layout) as superlink:
            yield superlink
    else:
        unknown = layout.workers_follow_gpus() and may_have_gpus()
        if layout.own_processes(1 if unknown else command_workers(layout)) > 1:
            warm_up(*WORKER_MODULES)
        yield None


def command_workers(layout: Layout) -> int:
    """Return how many workers a command wants on this machine."""
    return layout.wanted_by_command(this_machine(), available_bytes())


def counts_gpus(layout: Layout) -> bool:
    """Return whether a run's number of workers may depend on this machine's GPUs."""
    return layout.workers_follow_gpus() and not os.environ.get(ADDRESS) and may_have_gpus()


def superlink_for(layout: Layout) -> SuperLink:
    """Return a SuperLink for a run, not started yet."""
    return SuperLink(ray_cpus_for(layout))


def ray_cpus_for(layout: Layout) -> int:
    """Return the CPUs of a run's own Ray: one for each worker; 0 with a cluster that runs."""
    return 0 if os.environ.get(ADDRESS) else layout.ray_actors(this_machine())
