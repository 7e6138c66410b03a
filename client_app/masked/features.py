"""Sums of features for a classifier that the server solves; their sum over clients is masked."""

from client_app.after.sums import check_asked, sums_of_client
from client_app.masked.masked_sum import MaskedSum
from client_app.masked.party import continued
from client_app.masked.report import check_first_model, check_model, reasons_kept
from client_app.masked.stages import answered
from client_app.session import Session
from task.errors import SiteError
from task.protocol.masking.messages import ScoreReply, SumFeaturesRequest
from task.protocol.masking.rows import ScoreRow
from task.site import Site


def sum_features(session: Session[SumFeaturesRequest]) -> ScoreReply:
    """Add up the features of each client's training images; return the masked sum.

    The sums are exact: they are neither weighted nor rounded at random.

    Raises:
        ProtocolError: the request does not fit this worker.
        SiteError: the site does not tell its statistics, limits its privacy loss, has described
            another model, or wants masked sums to be rounded at random.
    """
    request, worker = session.request, session.worker
    session.check_clients(request.clients)
    weights = session.tensors(request.weights)
    check_model(session, weights)
    if worker.method.closed_form:
        check_first_model(session)
    check_asked(session)
    per_client = worker.config.privacy.per_client
    if session.site is not None and not per_client:
        check_rounding(session.site)
    worker.load(weights)
    with continued(session) as party:
        total = MaskedSum(party, request.members, request.boxes)

        def row(client: int) -> ScoreRow:
            total.open(client)
            with reasons_kept(session):
                honest = party.honest(client) if per_client else 1
                total.add(client, sums_of_client(session, client, honest).numpy())
            return ScoreRow(client=client)

        rows = answered(session, "features", row)
    return ScoreReply.to(request, rows=rows, masked=total.packed())


def check_rounding(site: Site) -> None:
    """Refuse sums that are not rounded at random, if the site's owner wants them to be.

    Raises:
        SiteError: the owner does.
    """
    if site.require_secure and not site.allow_nearest:
        raise SiteError(
            f"site {site.name} takes part in masked sums that are rounded at random, and sums of "
            "features are exact; its owner can set allow-nearest in site.toml"
        )
