"""A participant of a masked round: what it checks, and what it reveals in each stage."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from task.errors import ProtocolError
from task.protocol.masking.rows import Advert
from task.secure.mask_secrets import MaskSecrets, Pieces, commitment
from task.secure.primitives.mask_stream import Vector
from task.secure.primitives.signing import sign_digest
from task.secure.rules.ledger import SumLedger, begin_report, sign_once
from task.secure.rules.roster import Roster
from task.secure.rules.setup_checks import check_setup, check_survivors, check_view
from task.secure.rules.threshold import weights_of
from task.secure.transcript import Scope, Setup, View, advert_statement, agreement_statement

NOT_SIGNED = "00" * 8


class Stage(IntEnum):
    """The stages of a round. `NONE` precedes the first."""

    NONE, KEYS, SHARES, REPORT, AGREE, UNMASK = range(6)


@dataclass(frozen=True)
class Revealed:
    """What a participant reveals in the last stage.

    Attributes:
        seeds: by survivor, the share of its seed.
        mask_keys: by member that did not survive, the share of its mask key.
    """

    seeds: Mapping[int, bytes]
    mask_keys: Mapping[int, bytes]


@dataclass
class Progress:
    """How far a participant is in one attempt. It lives in memory only, and shows no secret.

    Attributes:
        stage: the last stage that was entered; each is entered once.
        advert: its keys and count.
        secrets: its secrets; None once the update is masked.
        setup: who takes part.
        view: what it was shown when it reported.
        received: by member, the shares of its seed and of its mask key.
        survivors: what it has signed.
    """

    stage: Stage = Stage.NONE
    advert: Advert | None = None
    secrets: MaskSecrets | None = None
    setup: Setup | None = None
    view: View | None = None
    received: dict[int, Pieces] | None = None
    survivors: tuple[int, ...] = ()

    def __repr__(self) -> str:
        return f"Progress(stage={self.stage.name})"

    def enter(self, stage: Stage) -> None:
        """Begin a stage. Also one that is then refused is over.

        Raises:
            ProtocolError: it is not the next one.
        """
        if self.stage != stage - 1:
            raise ProtocolError(
                f"the stage {stage.name.lower()} cannot follow {self.stage.name.lower()}: each "
                "stage is answered once, in its order"
            )
        self.stage = stage


class Participant:
    """One participant in one attempt at a round.

    Args:
        client: its number.
        roster: the participants that it knows.
        max_share: the largest weight of one update that it accepts.
        key: what it signs with.
        progress: where it continues; None for the start.

    Attributes:
        client: its number.
        progress: how far it is.
    """

    def __init__(
        self,
        client: int,
        roster: Roster,
        max_share: float,
        key: EllipticCurvePrivateKey,
        progress: Progress | None = None,
    ) -> None:
        self.client, self.progress = client, progress or Progress()
        self._roster, self._max_share, self._key = roster, max_share, key

    def keys(self, scope: Scope, examples: int) -> Advert:
        """Return new public keys for an attempt, signed.

        Args:
            scope: the attempt.
            examples: the number of its training images.

        Raises:
            ProtocolError: the stage was answered before.
        """
        self.progress.enter(Stage.KEYS)
        new = self.progress.secrets = MaskSecrets()
        unsigned = Advert(
            client=self.client,
            examples=examples,
            sealing_key=new.sealing.public.hex(),
            mask_key=new.masking.public.hex(),
            commitment=commitment(new.seed).hex(),
            roster=self._roster.fingerprint,
            signer=self._roster.signer(self._key).hex(),
            signature=NOT_SIGNED,
        )
        signature = sign_digest(self._key, advert_statement(scope, unsigned)).hex()
        self.progress.advert = unsigned.model_copy(update={"signature": signature})
        return self.progress.advert

    def share(self, setup: Setup) -> dict[int, bytes]:
        """Return the shares of its secrets, sealed for each other participant.

        Raises:
            ProtocolError: the setup is refused.
        """
        progress = self.progress
        progress.enter(Stage.SHARES)
        assert progress.advert
        assert progress.secrets
        check_setup(setup, progress.advert, self._roster, self._max_share)
        progress.setup = setup
        pieces = progress.secrets.split(setup)
        progress.received = {self.client: pieces.pop(self.client)}
        return {
            other: progress.secrets.seal(setup, self.client, other, each)
            for other, each in pieces.items()
        }

    def open_report(self, view: View, boxes: Mapping[int, bytes], ledger: SumLedger) -> float:
        """Check what it is shown before it trains; return the weight of its update.

        Args:
            view: what everyone is shown.
            boxes: by sender, the shares that are sealed for it.
            ledger: counts the report.

        Raises:
            ProtocolError: the view or a box is refused, or the model was reported on too often.
        """
        progress = self.progress
        progress.enter(Stage.REPORT)
        assert progress.secrets
        assert progress.received is not None
        if view.setup != progress.setup:
            raise ProtocolError("the setup was changed")
        check_view(view, self.client, boxes)
        for other, box in boxes.items():
            try:
                pieces = progress.secrets.unseal(view.setup, self.client, other, box)
            except ProtocolError as error:
                raise ProtocolError(f"{self._roster.name(other)}: {error}") from None
            progress.received[other] = pieces
        begin_report(ledger, view.setup.scope)
        progress.view = view
        return weights_of(view.setup.counts, view.setup.weighs_alike, self._max_share)[self.client]

    def mask(self, vector: Vector) -> None:
        """Add the masks to an update in place, modulo 2^64, and forget the secrets.

        Args:
            vector: the weighted update in fixed point, with all noise.

        Raises:
            ProtocolError: no report was opened, or an update was masked before.
        """
        progress = self.progress
        if progress.stage != Stage.REPORT or progress.secrets is None or progress.view is None:
            raise ProtocolError("there is no report to mask, or it was masked before")
        secrets, progress.secrets = progress.secrets, None
        secrets.mask(vector, progress.view, self.client)

    def agree(self, survivors: tuple[int, ...], ledger: SumLedger) -> bytes:
        """Return the signature of the survivors, after writing them down.

        Args:
            survivors: the participants whose updates are in the sum.
            ledger: what it has signed before.

        Raises:
            ProtocolError: the set is refused, or another one was signed for this model.
        """
        progress = self.progress
        progress.enter(Stage.AGREE)
        view = progress.view
        if view is None or progress.secrets is not None:
            raise ProtocolError("this participant has not reported")
        check_survivors(view, self.client, survivors, self._max_share)
        sign_once(ledger, view, survivors)
        progress.survivors = tuple(sorted(survivors))
        return sign_digest(self._key, agreement_statement(view, survivors))

    def unmask(self, signatures: Mapping[int, bytes]) -> Revealed:
        """Return the shares of the survivors' seeds, and of the other members' mask keys.

        Args:
            signatures: by survivor, its signature.

        Raises:
            ProtocolError: fewer than the threshold have signed the same as this participant.
        """
        progress = self.progress
        progress.enter(Stage.UNMASK)
        view, received, progress.received = progress.view, progress.received, None
        if view is None or received is None or not progress.survivors:
            raise ProtocolError("this participant has signed no survivors")
        statement = agreement_statement(view, progress.survivors)
        for client, signature in signatures.items():
            if client not in progress.survivors:
                raise ProtocolError(f"participant {client} has signed and is no survivor")
            self._roster.check(view.setup.adverts[client], statement, signature)
        if len(signatures) < view.setup.threshold:
            raise ProtocolError(
                f"{len(signatures)} participants have signed the survivors, and "
                f"{view.setup.threshold} are needed"
            )
        dropped = sorted(set(view.members) - set(progress.survivors))
        return Revealed(
            {client: received[client][0] for client in progress.survivors},
            {client: received[client][1] for client in dropped},
        )
