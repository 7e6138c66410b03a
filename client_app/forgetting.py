"""The end of a run at a worker."""

from pathlib import Path

from client_app.client_state import ClientState
from client_app.node import simulated
from client_app.session import Session
from task.protocol.registration import ForgetReply, ForgetRequest
from task.site import Site


def forget(session: Session[ForgetRequest]) -> ForgetReply:
    """Delete the states that the run's clients keep.

    A site whose owner wants its part of the model keeps them until the part is written.
    """
    site = None if simulated(session.node_config) else Site.from_node_config(session.node_config)
    if site is not None and site.models:
        from client_app.after.kept_parts import delete_unless_awaited  # noqa: PLC0415

        delete_unless_awaited(session.request.run, site, Path(site.models))
    else:
        ClientState(session.request.run, site=site).delete()
    return ForgetReply.to(session.request)
