"""Where this ClientApp runs: as a simulated worker, or on a real machine with data of its own."""

import sys
from collections.abc import Sequence

from task import wire
from task.errors import SiteError
from task.site import NodeConfig, Site


def runtime() -> str:
    """What runs this process: ``ray`` inside a Ray actor, else ``process``."""
    ray = sys.modules.get("ray")
    in_actor = ray is not None and ray.is_initialized() and ray.get_runtime_context().get_actor_id()
    return "ray" if in_actor else "process"


def simulated(node_config: NodeConfig) -> bool:
    """Whether this is a simulated worker.

    Told by what runs it and not by a partition id, which real SuperNodes are often started with.
    """
    return runtime() == "ray" or wire.IN_PROCESS in node_config


def site_of(node_config: NodeConfig, sites: Sequence[str]) -> Site | None:
    """The site that this node is, by its own settings; None for a simulated worker.

    Only a simulated worker reads the data that the experiment names: a real one reads its own,
    whatever a coordinator asks.

    Raises:
        SiteError: the node is a site and the experiment has none, or the other way round, or the
            node's settings are not a site's.
    """
    if simulated(node_config) and not sites:
        return None
    if simulated(node_config) or "data-dir" not in node_config:
        raise SiteError(
            "a SuperNode names no data of its own: start it with --node-config "
            "\"site='NAME' data-dir='DIRECTORY'\""
        )
    site = Site.of(node_config)
    if not sites:
        raise SiteError(
            f"{site.name} is a site with data of its own; run with partition=sites "
            "partition.names=[...] data=folder data.classes=[...]"
        )
    return site
