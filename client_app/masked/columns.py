"""The sums of the columns of clients' rows before round 1; their sum is masked."""

from client_app.columns import checked_source, own_sums
from client_app.masked.masked_sum import MaskedSum
from client_app.masked.party import continued
from client_app.masked.report import reasons_kept
from client_app.masked.stages import answered
from client_app.session import Session
from task.protocol.masking.columns import MaskedColumnsRequest
from task.protocol.masking.messages import ScoreReply
from task.protocol.masking.rows import ScoreRow


def masked_sums(session: Session[MaskedColumnsRequest]) -> ScoreReply:
    """Sum up the columns of each client's rows; return the masked sum.

    Raises:
        ProtocolError: the request does not fit this worker.
        SiteError: the site limits its privacy loss.
    """
    request = session.request
    session.check_clients(request.clients)
    source = checked_source(session)
    with continued(session) as party:
        total = MaskedSum(party, request.members, request.boxes)

        def row(client: int) -> ScoreRow:
            total.open(client)
            with reasons_kept(session):
                total.add(client, own_sums(session, source, client).reshape(-1))
            return ScoreRow(client=client)

        rows = answered(session, "columns", row)
    return ScoreReply.to(request, rows=rows, masked=total.packed())
