"""What a run's processes need first, started while this process still imports PyTorch.

This file and what it imports import no PyTorch.
"""

from collections.abc import Mapping
from typing import Any

from task.machine.memory import available_bytes
from univarfl.engines.cluster import may_have_gpus, this_machine
from univarfl.engines.layout import Layout
from univarfl.engines.local.processes import warm_up

WORKER_MODULES = (
    "univarfl.application",  # first: it makes the others importable
    "client_app.registration", "client_app.work_unit", "client_app.handlers",
    "univarfl.engines.local.worker_processes",
)  # fmt: skip


def start_early(settings: Mapping[str, Any]) -> None:
    """Start the fork server of a run with several workers of its own.

    Where there may be a GPU, nothing is started for workers that follow GPUs: PyTorch counts them.

    Args:
        settings: the settings of the run, which nobody has checked. Nothing is started for wrong
            ones.
    """
    layout = Layout.of_settings(settings)
    if layout is None or layout.engine == "flower":
        return
    unknown = layout.workers_follow_gpus() and may_have_gpus()
    if layout.own_processes(1 if unknown else command_workers(layout)) > 1:
        warm_up(*WORKER_MODULES)


def command_workers(layout: Layout) -> int:
    """Return how many workers a command wants on this machine."""
    return layout.wanted_by_command(this_machine(), available_bytes())
