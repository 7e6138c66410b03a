"""Fine-tuning of the final model at each client, after the last round."""

import logging

from client_app.error_redaction import reason_for_server
from client_app.session import Session
from client_app.work_unit import personal_state, score_row
from task.data.site_data import check_amount
from task.protocol.after.finetuning import FinetuneReply, FinetuneRequest, FinetuneRow
from task.training.after.finetuning import Finetuner, read_finetuning

logger = logging.getLogger("univarfl.client")


def finetune_clients(session: Session[FinetuneRequest]) -> FinetuneReply:
    """Return each client's scores before and after fine-tuning.

    A client that fails is reported in its own row.

    Raises:
        ProtocolError: the request does not fit this worker.
        SiteError: it asks for more than the site's owner allows.
    """
    request = session.request
    session.refuse_if_masked("a score")
    session.check_clients(request.clients)
    settings = read_finetuning(session.stage("finetune"))
    if session.site is not None:
        check_amount(session.site, settings.epochs, settings.batch_size)
    session.refuse_scores_with_noise()
    weights = session.tensors(request.weights)
    finetuner = Finetuner(session.worker, settings)
    rows = []
    for client, accepted in zip(request.clients, request.accepted, strict=True):
        try:
            state = personal_state(session, client, accepted)
            pair = finetuner.scores(weights, client, state, session.deadline)
            before, after = (score_row(client, score) for score in pair)
            rows.append(FinetuneRow(client=client, before=before, after=after).model_dump())
        except Exception as error:
            logger.exception("client %d failed after round %d", client, request.round)
            reason = reason_for_server(error, session.node_config) or "no reason given"
            rows.append(FinetuneRow(client=client, reason=reason).model_dump())
        else:
            logger.info("fine-tuned for %d epochs", settings.epochs)
    return FinetuneReply.to(request, rows=rows)
