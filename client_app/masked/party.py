"""The participants of one worker in one attempt at a round: its clients, or the site itself."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from flwr.app import ConfigRecord, RecordDict

from client_app.masked.identity import ParticipantIdentity, identity_of
from client_app.session import Session
from task.errors import ProtocolError
from task.protocol.masking.messages import MaskedRequest
from task.secure.participant import Participant, Progress
from task.secure.primitives.signing import new_signing_key, private_bytes, read_signing_key
from task.secure.rules.ledger import SumLedger
from task.secure.saved_progress import pack_progress, unpack_progress
from task.secure.transcript import Scope, Setup

STATE = "masked"  # the record in a node's state, which is kept in memory
PROGRESS, SIGNER = "progress", "signer-{}"


class Party:
    """A worker's participants.

    Args:
        scope: the attempt.
        identity: who they are.
        members: the progress by client.
    """

    def __init__(
        self, scope: Scope, identity: ParticipantIdentity, members: dict[int, Progress]
    ) -> None:
        self.scope, self._identity, self._members = scope, identity, members

    def participant(self, client: int) -> Participant:
        """Return a participant.

        Raises:
            ProtocolError: it has no keys in this attempt.
        """
        if client not in self._members:
            raise ProtocolError("it has no secrets for this attempt; its process may be new")
        identity = self._identity
        return Participant(
            client, identity.roster, identity.max_share, identity.signer(client),
            self._members[client],
        )  # fmt: skip

    def equal_weights(self, client: int) -> bool:
        """Return whether all participants have the same weight, as one of them was shown it."""
        return self._setup(client).equal_weights

    def honest(self, client: int) -> int:
        """Return the smallest number of honest participants in a sum with this one's update.

        Raises:
            ProtocolError: there might be none.
        """
        setup = self._setup(client)
        honest = setup.threshold - self._identity.most_colluding(setup.asked)
        if honest < 1:
            raise ProtocolError(
                f"{setup.threshold} participants are in the sum, and all of them may collude"
            )
        return honest

    def _setup(self, client: int) -> Setup:
        setup = self.participant(client).progress.setup
        if setup is None:
            raise ProtocolError("this participant has shared no secrets")
        return setup

    def ledger(self, client: int) -> SumLedger:
        """Return the ledger of a participant's earlier signatures."""
        return self._identity.ledger(client)

    def save(self, state: RecordDict) -> None:
        """Keep the progress in memory for the next message."""
        record = ConfigRecord({PROGRESS: pack_progress(self.scope, self._members)})
        for client, key in self._identity.temporary_keys.items():
            record[SIGNER.format(client)] = private_bytes(key)
        state[STATE] = record


def scope_of(request: MaskedRequest) -> Scope:
    """Return the attempt that a request belongs to."""
    return Scope(
        request.run, request.round, request.attempt, request.experiment, request.model,
        request.keys_nonce, request.purpose, request.layer, request.parameters,
    )  # fmt: skip


def new_party(session: Session[Any], clients: Sequence[int]) -> Party:
    """Return participants at the start of an attempt.

    Raises:
        ProtocolError: the experiment has no masked rounds.
        SiteError: the site's roster cannot be used.
    """
    keys = {} if session.site else {client: new_signing_key() for client in clients}
    progress = {client: Progress() for client in clients}
    return Party(scope_of(session.request), identity_of(session, keys), progress)


@contextmanager
def continued(session: Session[Any]) -> Iterator[Party]:
    """Yield the participants of an attempt where they were, and keep how far they get.

    A stage counts as answered even if it ends in an error.

    Raises:
        ProtocolError: the experiment has no masked rounds.
        SiteError: the site's roster cannot be used.
    """
    scope = scope_of(session.request)
    members: dict[int, Progress] = {}
    keys = {}
    if STATE in session.state:
        record = session.state[STATE]
        assert isinstance(record, ConfigRecord)
        content = record[PROGRESS]
        assert isinstance(content, bytes)
        found, members = unpack_progress(content)
        if found != scope:
            members = {}
        for client in members:
            key = record.get(SIGNER.format(client))  # a site has its own
            if isinstance(key, bytes):
                keys[client] = read_signing_key(key)
    party = Party(scope, identity_of(session, keys), members)
    try:
        yield party
    finally:
        party.save(session.state)


def forget(state: RecordDict) -> None:
    """Forget all secrets."""
    state.pop(STATE, None)


def secrets_of(state: RecordDict) -> bytes:
    """Return the secrets for `restore_secrets` in the next process of this site; empty for none."""
    record = state.get(STATE)
    if not isinstance(record, ConfigRecord):
        return b""
    content = record[PROGRESS]
    assert isinstance(content, bytes)
    return content


def restore_secrets(state: RecordDict, content: bytes) -> None:
    """Continue where an earlier process of this site has stopped."""
    state.clear()
    if content:
        state[STATE] = ConfigRecord({PROGRESS: content})
