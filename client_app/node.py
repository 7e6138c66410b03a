"""Where this ClientApp runs: as a simulated worker, or as a site with data of its own."""

import sys
from collections.abc import Sequence
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from task.errors import SiteError
from task.extensions import run_by_clients
from task.protocol.signature import read_private_key
from task.site import IN_PROCESS, NodeConfig, Site

NO_DIRECTORY = (
    "this SuperNode has no data directory: start it with --node-config "
    "\"site='NAME' data-dir='DIRECTORY'\""
)


def runtime() -> str:
    """Return the name of the runtime: ``ray`` inside a Ray actor, else ``process``."""
    ray = sys.modules.get("ray")
    in_actor = ray is not None and ray.is_initialized() and ray.get_runtime_context().get_actor_id()
    return "ray" if in_actor else "process"


def simulated(node_config: NodeConfig) -> bool:
    """Return whether this is a simulated worker.

    The partition id does not decide it, because real SuperNodes are often started with one, too.
    """
    return runtime() == "ray" or IN_PROCESS in node_config


def check_extensions(node_config: NodeConfig, experiment: str, run: str) -> None:
    """Refuse code of other packages that this node's owner does not allow; nothing is imported.

    A simulated worker, which belongs to the person who starts the run, may run any.

    Args:
        node_config: the node's settings.
        experiment: a `task.config.LocalConfig` as JSON.
        run: the run's id.

    Raises:
        SiteError: the site does not list a package, its owner has not approved the experiment, or
            the settings are not a site's.
    """
    if simulated(node_config):
        return
    if "data-dir" not in node_config:
        raise SiteError(NO_DIRECTORY)
    site = Site.from_node_config(node_config)
    site.check_extensions(experiment)
    if site.require_approval and run_by_clients(experiment):
        # Later it would be too late: some checks of the settings build the network.
        from task.approval.approvals import Approvals  # noqa: PLC0415  (few sites need them)

        Approvals.of_site(site).require(site.name, experiment, run)


def site_of(node_config: NodeConfig, sites: Sequence[str]) -> Site | None:
    """Return the site that this node's own settings describe; None for a simulated worker.

    Only a simulated worker reads the data that the experiment names. A real node reads its own
    data, whatever a coordinator asks for.

    Args:
        node_config: the node's settings.
        sites: the sites that the experiment lists; empty for a simulation.

    Raises:
        SiteError: the node is a site and the experiment lists none, or the reverse, or the
            settings are not a site's.
    """
    if simulated(node_config) and not sites:
        return None
    if simulated(node_config) or "data-dir" not in node_config:
        raise SiteError(NO_DIRECTORY)
    site = Site.from_node_config(node_config)
    if not sites:
        raise SiteError(
            f"{site.name} is a site with its own data; run with partition=sites "
            "partition.names=[...] data=folder data.classes=[...]"
        )
    return site


def signing_key(node_config: NodeConfig) -> EllipticCurvePrivateKey | None:
    """Return the private key with which this site signs; None for a simulated worker.

    Raises:
        SiteError: the settings name no key, or it cannot be used. The message contains no path.
    """
    if simulated(node_config):
        return None
    path = node_config.get("key")
    if not isinstance(path, str):
        raise SiteError(
            "this SuperNode has no key to sign with: start it with 'univarfl deploy site', or add "
            "key='FILE' to its --node-config, the absolute path of its private key"
        )
    try:
        return read_private_key(Path(path).read_bytes())
    except (OSError, ValueError) as error:
        raise SiteError(
            "this SuperNode's key cannot be used: its setting 'key' must be the absolute path of "
            f"the private key that it was started with ({type(error).__name__})"
        ) from None
