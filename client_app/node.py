"""Where this ClientApp runs: as a simulated worker, or on a real machine with data of its own."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from task import wire
from task.data.federated import Site
from task.errors import SiteError

NodeConfig = Mapping[str, object]


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


def site_name(node_config: NodeConfig) -> str:
    """What this site calls itself; its directory's name if it does not say."""
    return str(node_config.get("site", Path(str(node_config.get("data-dir", "?"))).name))


def site_of(node_config: NodeConfig, sites: Sequence[str]) -> Site | None:
    """The site that this node is, by its own settings; None for a simulated worker.

    Only a simulated worker reads the data that the experiment names: a real one reads its own,
    whatever a coordinator asks.

    Raises:
        SiteError: the node is a site and the experiment has none, or the other way round.
    """
    if simulated(node_config) and not sites:
        return None
    if simulated(node_config) or "data-dir" not in node_config:
        raise SiteError(
            "a SuperNode names no data of its own: start it with --node-config "
            "\"site='NAME' data-dir='DIRECTORY'\""
        )
    directory = Path(str(node_config["data-dir"])).expanduser()
    site = Site(site_name(node_config), str(directory))
    if not directory.is_absolute():
        raise SiteError(f"the data-dir of site {site.name} must be an absolute path")
    if not sites:
        raise SiteError(
            f"{site.name} is a site with data of its own; run with partition=sites "
            "partition.names=[...] data=folder data.classes=[...]"
        )
    return site
