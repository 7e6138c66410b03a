"""The share of the clients that must answer a stage after the last round."""

from collections.abc import Mapping, Sequence

from server_app.rounds.context import RoundContext
from server_app.rounds.errors import RunFailedError
from server_app.rounds.sampling import quorum_count


def wait_for_quorum(context: RoundContext, clients: Sequence[int]) -> None:
    """Wait until a quorum of clients is connected, and learn their image counts.

    Waits ``federation.join_timeout`` seconds at most.

    Args:
        context: the run, after its last round.
        clients: those that the stage asks.
    """
    context.sizes.update(context.nodes.wait_for_clients(clients, least(context, clients)))


def check_quorum(
    context: RoundContext, clients: Sequence[int], missing: Mapping[int, str], stage: str, did: str
) -> None:
    """Refuse to go on with too few clients; the run can be resumed when more are connected.

    Args:
        context: the run, after its last round.
        clients: those that the stage should ask.
        missing: by client, why it has not answered.
        stage: the setting that has the stage, for the message.
        did: what the others did, for the message.

    Raises:
        RunFailedError: fewer have answered than ``federation.quorum`` asks for.
    """
    answered, wanted = len(set(clients) - missing.keys()), least(context, clients)
    if answered >= wanted:
        return
    first = next((f"; the first: {missing[client]}" for client in clients if client in missing), "")
    raise RunFailedError(
        f"{stage}: {answered} of {len(clients)} clients {did}, "
        f"and the quorum is {wanted} (federation.quorum){first}"
    )


def least(context: RoundContext, clients: Sequence[int]) -> int:
    """Return how many of the clients must answer: a quorum, and one at least."""
    return max(1, quorum_count(context.experiment.federation.quorum, len(clients)))
