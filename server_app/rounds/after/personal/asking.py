"""Asking clients to fine-tune the final model, and reading their scores."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from server_app.nodes.failure import Failure, usable
from server_app.rounds.context import RoundContext
from server_app.rounds.ending.asking import ask_clients
from server_app.rounds.evaluation import clients_of_final_scores
from server_app.rounds.kind import checked_score, stateful_fields
from task.errors import ProtocolError
from task.protocol.after.finetuning import FINETUNE, FinetuneReply
from task.training.evaluation import Score


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


def finetuned_scores(context: RoundContext) -> Finetuned:
    """Ask the clients that score the final model; name those without scores in the record.

    Args:
        context: the run, after its last round.
    """
    replies = ask_clients(
        context,
        FINETUNE,
        clients_of_final_scores(context),
        context.sizes.train,
        partial(stateful_fields, context),
        "fine-tuning",
    )
    before: dict[int, Score] = {}
    after: dict[int, Score] = {}
    missing: dict[int, str] = {}
    for client, reply in sorted(replies.items()):
        try:
            pair = read_scores(client, reply, context.sizes.validation[client])
        except ProtocolError as error:
            missing[client] = str(error)
            context.note_client(client, f"not fine-tuned: {error}")
        else:
            before[client], after[client] = pair
    return Finetuned(before, after, missing)


def read_scores(client: int, reply: FinetuneReply | Failure, size: int) -> tuple[Score, Score]:
    """Return a client's scores before and after.

    Raises:
        ProtocolError: it has none that can be used.
    """
    before, after = usable(reply).scores(client)
    return checked_score(before, size), checked_score(after, size)
