"""Asking clients to fine-tune the final model, and reading their scores."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from server_app.nodes.assignment import assign_clients, served_clients
from server_app.nodes.failure import Failure, usable
from server_app.rounds.context import RoundContext
from server_app.rounds.evaluation import checked_score, clients_of_final_scores, stateful_fields
from task.protocol.after.finetuning import FinetuneReply
from task.protocol.errors import ProtocolError
from task.protocol.messages import FINETUNE
from task.training.evaluation import Score

ABSENT = "its SuperNode is not connected, or was refused (see events.csv)"


@dataclass(frozen=True)
class Finetuned:
    """The scores of the clients that answered.

    Attributes:
        before: by client, the score of the final model.
        after: by client, the score of the fine-tuned model.
        missing: by client, why it has none.
    """

    before: Mapping[int, Score]
    after: Mapping[int, Score]
    missing: Mapping[int, str]


def finetuned_scores(context: RoundContext, settings: Mapping[str, Any]) -> Finetuned:
    """Ask the clients that score the final model; name those without scores in the record.

    Args:
        context: the run, after its last round.
        settings: the fields of `FinetuneRequest` that say how to train.
    """
    nodes = context.connected()
    clients = clients_of_final_scores(context)
    here = served_clients(clients, nodes)
    missing = dict.fromkeys(set(clients) - set(here), ABSENT)
    units = assign_clients(here, context.sizes.train, nodes, max(1, len(here)))
    letters = context.letters(
        FINETUNE,
        units,
        context.experiment.rounds,
        lambda unit: {**settings, **stateful_fields(context, unit)},
    )
    exchange = context.exchange(FINETUNE, letters)
    before: dict[int, Score] = {}
    after: dict[int, Score] = {}
    for unit, reply in zip(units, exchange.replies(), strict=True):
        for client in unit.clients:
            try:
                pair = read_scores(client, reply, context.sizes.validation[client])
            except ProtocolError as error:
                missing[client] = str(error)
            else:
                before[client], after[client] = pair
    context.late_replies.expect(exchange, units, "fine-tuning after the last round")
    for client, reason in sorted(missing.items()):
        site = context.sites[client] if context.sites else ""
        context.note(site, f"{'' if site else f'client {client}: '}not fine-tuned: {reason}")
    return Finetuned(before, after, dict(sorted(missing.items())))


def read_scores(client: int, reply: FinetuneReply | Failure, size: int) -> tuple[Score, Score]:
    """Return a client's scores before and after.

    Raises:
        ProtocolError: it has none that can be used.
    """
    before, after = usable(reply).scores(client)
    return checked_score(before, size), checked_score(after, size)
