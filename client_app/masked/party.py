"""The participants of one worker in one attempt at a round: its clients, or the site itself."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from flwr.app import ConfigRecord, Context

from client_app.session import Session
from task.config import read_local_config
from task.protocol.errors import ProtocolError
from task.protocol.masking.messages import MaskedRequest, ReportRequest
from task.secure.participant import Participant, Progress
from task.secure.primitives.signing import new_signing_key, private_bytes, read_signing_key
from task.secure.rules.ledger import Ledger, MemoryLedger
from task.secure.rules.roster import Roster, SimulatedRoster
from task.secure.saved_progress import pack_progress, unpack_progress
from task.secure.settings import Secure
from task.secure.transcript import Scope

STATE = "masked"  # the record in a node's state, which Flower keeps in memory
PROGRESS, SIGNER = "progress", "signer-{}"


class Party:
    """A worker's participants.

    Args:
        scope: the attempt.
        secure: the experiment's settings.
        members: the progress by client.
        signers: what simulated clients sign with.
    """

    def __init__(
        self,
        scope: Scope,
        secure: Secure,
        members: dict[int, Progress],
        signers: dict[int, EllipticCurvePrivateKey],
    ) -> None:
        self.scope, self._secure, self._members, self._signers = scope, secure, members, signers
        self._roster: Roster = SimulatedRoster(secure.colluding)
        self._ledgers: dict[int, Ledger] = {}

    def participant(self, client: int) -> Participant:
        """Return a participant.

        Raises:
            ProtocolError: it has no keys in this attempt.
        """
        if client not in self._members:
            raise ProtocolError("it has no secrets for this attempt; its process may be new")
        return Participant(
            client, self._roster, self._secure.max_share, self._signers[client],
            self._members[client],
        )  # fmt: skip

    def ledger(self, client: int) -> Ledger:
        """Return what a participant has signed before."""
        return self._ledgers.setdefault(client, MemoryLedger())

    def save(self, context: Context) -> None:
        """Keep the progress in memory for the next message."""
        record = ConfigRecord({PROGRESS: pack_progress(self.scope, self._members)})
        for client, key in self._signers.items():
            record[SIGNER.format(client)] = private_bytes(key)
        context.state[STATE] = record


def secure_settings(session: Session[Any]) -> Secure:
    """Return the experiment's settings of secure aggregation.

    Raises:
        ProtocolError: the experiment has no masked rounds.
    """
    secure = read_local_config(session.request.experiment).secure
    if not secure.masked:
        raise ProtocolError("a stage of a masked round, and the experiment has secure=none")
    return secure


def scope_of(request: MaskedRequest | ReportRequest) -> Scope:
    """Return the attempt that a request belongs to."""
    return Scope(request.run, request.round, request.attempt, request.experiment, request.purpose)


def new_party(session: Session[Any], clients: Sequence[int]) -> Party:
    """Return participants at the start of an attempt.

    Raises:
        ProtocolError: the experiment has no masked rounds.
    """
    return Party(
        scope_of(session.request),
        secure_settings(session),
        {client: Progress() for client in clients},
        {client: new_signing_key() for client in clients},
    )


@contextmanager
def continued(session: Session[Any], context: Context) -> Iterator[Party]:
    """Yield the participants of an attempt where they were, and keep how far they get.

    A stage counts as answered even if it ends in an error.

    Raises:
        ProtocolError: this worker has no secrets for this attempt.
    """
    secure, scope = secure_settings(session), scope_of(session.request)
    members: dict[int, Progress] = {}
    signers = {}
    if STATE in context.state:
        record = context.state[STATE]
        assert isinstance(record, ConfigRecord)
        content = record[PROGRESS]
        assert isinstance(content, bytes)
        found, members = unpack_progress(content)
        if found != scope:
            members = {}
        for client in members:
            key = record[SIGNER.format(client)]
            assert isinstance(key, bytes)
            signers[client] = read_signing_key(key)
    party = Party(scope, secure, members, signers)
    try:
        yield party
    finally:
        party.save(context)


def forget(context: Context) -> None:
    """Forget all secrets."""
    context.state.pop(STATE, None)
