"""What a site's own settings allow of an experiment, before anything is trained."""

from client_app.node import site_of
from task.config import LocalConfig
from task.errors import ProtocolError, SiteError
from task.protocol.envelope import Request
from task.site import NodeConfig, Site


def admitted_site(request: Request, config: LocalConfig, node_config: NodeConfig) -> Site | None:
    """Return the site that this node is, if it takes part; None for a simulated worker.

    Args:
        request: what the server asks.
        config: its experiment.
        node_config: the node's own settings.

    Raises:
        ProtocolError: the request names a round that the experiment does not have.
        SiteError: the experiment and this node disagree on whose data are trained on. Or it does
            not mask updates as the site requires. Or its owner has not approved the experiment, or
            approved it for fewer runs.
    """
    site = site_of(node_config, config.partitioner().sites)
    if site is None:
        return None
    if site.require_secure and not config.secure.masked:
        raise SiteError(
            f"site {site.name} takes part in masked rounds only (its require-secure); add "
            "secure=masked"
        )
    if site.require_secure and config.secure.rounding == "nearest" and not site.allow_nearest:
        raise SiteError(
            f"site {site.name} takes part in masked rounds with secure.rounding=stochastic; "
            "its owner can set allow-nearest in site.toml"
        )
    if request.round > config.rounds:
        raise ProtocolError(
            f"it names round {request.round}, and the experiment has {config.rounds}"
        )
    if site.require_approval:
        from task.approval.approvals import Approvals  # noqa: PLC0415

        Approvals.of_site(site).require(site.name, request.experiment, request.run)
    return site


def count_request(site: Site, request: Request, kind: str, parts: int) -> None:
    """Count a request about a site's images, if its owner approves experiments.

    Args:
        site: the site.
        request: the request.
        kind: the message type.
        parts: how many such requests a round needs.

    Raises:
        ProtocolError: it comes before the first round.
        SiteError: an approval does not hold for so many.
        OSError: it cannot be counted.
    """
    if not request.round:
        raise ProtocolError("it names round 0, and rounds begin with 1")
    if site.require_approval:
        from task.approval.approvals import MOST_ANSWERS, Approvals  # noqa: PLC0415

        Approvals.of_site(site).count(
            site.name, request.experiment, request.run, f"{kind} {request.round}",
            parts * MOST_ANSWERS,
        )  # fmt: skip
