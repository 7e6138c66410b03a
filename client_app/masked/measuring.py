"""The moments of one layer's inputs after the last round; their sum is masked."""

from client_app.after.moments import check_measured
from client_app.masked.masked_sum import MaskedSum
from client_app.masked.party import continued
from client_app.masked.report import check_model, reasons_kept
from client_app.masked.stages import answered
from client_app.session import Session
from task.errors import ProtocolError
from task.models.layers.norm import batch_norm_layers
from task.protocol.masking.messages import MeasureRequest, ScoreReply
from task.protocol.masking.rows import ScoreRow
from task.secure.transcript import parameters_hash
from task.secure.vectors.moments_vector import MomentsVector
from task.training.after.moments import input_moments, measured_positions


def measure(session: Session[MeasureRequest]) -> ScoreReply:
    """Measure a layer on each client's training images; return the masked sum.

    Raises:
        ProtocolError: the request does not fit this worker.
        SiteError: the site limits its privacy loss.
    """
    request, worker = session.request, session.worker
    session.check_clients(request.clients)
    weights = session.tensors(request.weights)
    check_model(session, weights)
    check_measured(session)
    if parameters_hash(worker.model, weights) != request.parameters:
        raise ProtocolError("the model is not the one that is measured in this run")
    worker.load(weights)
    layout = MomentsVector(batch_norm_layers(worker.model)[request.layer])
    with continued(session) as party:
        total = MaskedSum(party, request.members, request.boxes)

        def row(client: int) -> ScoreRow:
            session.check_trained_here(client)
            weight = total.open(client)
            key = session.rounding_key(request.purpose, client)
            with reasons_kept(session):
                positions = measured_positions(worker, client, request.images)
                found = input_moments(worker.model, request.layer, worker.images, positions)
                total.add(client, layout.pack(*found, weight, key))
            return ScoreRow(client=client)

        rows = answered(session, "measure", row)
    return ScoreReply.to(request, rows=rows, masked=total.packed())
