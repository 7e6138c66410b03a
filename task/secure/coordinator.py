"""The coordinator of a masked round: it collects what participants send, and unmasks the sum."""

from collections import Counter
from collections.abc import Collection, Mapping

from task.errors import ProtocolError
from task.protocol.masking.rows import Advert
from task.secure.mask_secrets import commitment, remove_masks
from task.secure.participant import Revealed
from task.secure.primitives.key_agreement import KeyPair, require_usable
from task.secure.primitives.mask_stream import Vector
from task.secure.primitives.signing import check_signature
from task.secure.restoration import Restoration
from task.secure.transcript import Scope, Setup, View, advert_statement, agreement_statement


class TooFewError(RuntimeError):
    """Fewer participants than the threshold are left; the text says in which stage."""


class Coordinator:
    """The coordinator's part of one attempt at a round.

    Args:
        scope: the attempt.
        threshold: how many participants the round needs.
        colluding: how many of them may lie.
        uniform: whether all updates weigh the same.
        counts: the image counts of the round's clients, by client.
        keys: each site's public key in DER, by client; None in a simulation.

    Attributes:
        restoration: restores secrets, and knows which shares were wrong.
    """

    def __init__(
        self,
        scope: Scope,
        threshold: int,
        colluding: int,
        uniform: bool,
        counts: Mapping[int, int],
        keys: Mapping[int, bytes] | None,
    ) -> None:
        self._scope, self._threshold, self._uniform = scope, threshold, uniform
        self._colluding = colluding
        self._counts, self._keys = counts, keys
        self.restoration = Restoration(threshold, colluding)
        self._claims: dict[int, tuple[int, ...]] = {}  # the set that a client says it has signed
        self._adverts: dict[int, Advert] = {}
        self._boxes: dict[int, Mapping[int, bytes]] = {}
        self._signatures: dict[int, bytes] = {}
        self._revealed: dict[int, Revealed] = {}

    def add_advert(self, advert: Advert, signed: Collection[int] = ()) -> None:
        """Take a participant's keys.

        Args:
            advert: the keys.
            signed: the survivors that it has signed before, for the same model.

        Raises:
            ProtocolError: they are not signed or cannot be used, or it has another number of
                images.
        """
        client = advert.client
        if advert.examples != self._counts[client]:
            raise ProtocolError(
                f"it signs {advert.examples} training images and has {self._counts[client]}"
            )
        adverts = self._adverts.values()
        taken = {key for each in adverts for key in (each.mask_key, each.sealing_key)}
        if {advert.mask_key, advert.sealing_key} & taken:
            raise ProtocolError("it uses the key of another participant")
        for key in (advert.mask_key, advert.sealing_key):
            require_usable(bytes.fromhex(key))
        self._check(advert, advert_statement(self._scope, advert), bytes.fromhex(advert.signature))
        self._adverts[client] = advert
        if signed:
            self._claims[client] = tuple(sorted(set(signed)))

    def setup(self) -> Setup:
        """Return who takes part.

        Participants that have signed a set of survivors for this model sign no other one. So only
        this set takes part. If so few name a set that all of them may lie, they are left out
        instead: otherwise one participant could choose the others, or end the round. So are those
        that name a set with clients which this round does not ask.

        Raises:
            TooFewError: fewer than the threshold have sent keys.
        """
        self._require(self._adverts, "sent keys")
        sets = Counter(
            signed
            for signed in self._claims.values()
            if len(signed) >= self._threshold and self._counts.keys() >= set(signed)
        )
        survivors, naming = sets.most_common(1)[0] if sets else ((), 0)
        if naming <= self._colluding:
            self._adverts = {c: a for c, a in self._adverts.items() if c not in self._claims}
            self._require(self._adverts, "sent keys and signed no survivors before")
        else:
            self._adverts = {c: self._adverts[c] for c in survivors if c in self._adverts}
            if len(self._adverts) < len(survivors):
                raise TooFewError(
                    f"participants {', '.join(map(str, survivors))} signed an earlier sum of this "
                    "model, so all of them must take part, and some are missing"
                )
        absent = sorted(self._counts.keys() - self._adverts.keys())
        return Setup(self._scope, self._threshold, self._uniform, dict(self._adverts), absent)

    def add_boxes(self, client: int, boxes: Mapping[int, bytes]) -> None:
        """Take the shares that a participant has sealed for the others.

        Raises:
            ProtocolError: they are not for all others.
        """
        if boxes.keys() != self._adverts.keys() - {client}:
            raise ProtocolError("it must seal shares for each other participant, and no more")
        self._boxes[client] = boxes

    def view(self, setup: Setup, max_norm: float) -> View:
        """Return what everyone is shown before training.

        Raises:
            TooFewError: fewer than the threshold have sent shares.
        """
        self._require(self._boxes, "sent shares")
        return View(setup, sorted(self._boxes), max_norm)

    def boxes_for(self, client: int) -> dict[int, bytes]:
        """Return the shares that are sealed for a member, by sender."""
        return {sender: boxes[client] for sender, boxes in self._boxes.items() if sender != client}

    def add_signature(
        self, view: View, survivors: Collection[int], client: int, signature: bytes
    ) -> None:
        """Take a survivor's signature.

        Raises:
            ProtocolError: it has signed something else.
        """
        statement = agreement_statement(view, survivors)
        self._check(self._adverts[client], statement, signature)
        self._signatures[client] = signature

    def signatures(self) -> dict[int, bytes]:
        """Return the signatures, by survivor.

        Raises:
            TooFewError: they are fewer than the threshold.
        """
        self._require(self._signatures, "signed the survivors")
        return dict(self._signatures)

    def add_revealed(
        self, view: View, survivors: Collection[int], client: int, revealed: Revealed
    ) -> None:
        """Take what a participant reveals.

        Raises:
            ProtocolError: it reveals something else than it was asked for.
        """
        dropped = set(view.members) - set(survivors)
        if revealed.seeds.keys() != set(survivors) or revealed.mask_keys.keys() != dropped:
            raise ProtocolError("it reveals other shares than it was asked for")
        self._revealed[client] = revealed

    def unmask(self, view: View, survivors: Collection[int], total: Vector) -> None:
        """Remove the masks from the sum of the survivors' masked updates, in place.

        Raises:
            TooFewError: fewer than the threshold have revealed shares.
            ProtocolError: shares are wrong; the sum is unchanged.
        """
        self._require(self._revealed, "revealed shares")
        seeds = {client: self._seed(client) for client in sorted(survivors)}
        dropped = sorted(set(view.members) - set(survivors))
        mask_keys = {client: self._mask_key(client) for client in dropped}
        remove_masks(total, view, seeds, mask_keys)

    def _seed(self, client: int) -> bytes:
        """Return a survivor's seed.

        Raises:
            ProtocolError: shares of it are wrong.
        """
        expected = self._adverts[client].commitment
        shares = {c: each.seeds[client] for c, each in self._revealed.items()}
        return self.restoration.restore(
            shares, client, lambda seed: commitment(seed).hex() == expected
        )

    def _mask_key(self, client: int) -> KeyPair:
        """Return the mask keys of a member that did not survive.

        Raises:
            ProtocolError: shares of them are wrong.
        """
        shares = {c: each.mask_keys[client] for c, each in self._revealed.items()}
        expected = self._adverts[client].mask_key
        return KeyPair(
            self.restoration.restore(
                shares, client, lambda key: KeyPair(key).public.hex() == expected
            )
        )

    def _check(self, advert: Advert, statement: bytes, signature: bytes) -> None:
        keys = self._keys
        key = bytes.fromhex(advert.signer) if keys is None else keys[advert.client]
        check_signature(key, statement, signature, f"participant {advert.client}")

    def _require(self, found: Collection[int], have: str) -> None:
        if len(found) < self._threshold:
            raise TooFewError(
                f"{len(found)} of {len(self._counts)} participants have {have}, and the threshold "
                f"of secure aggregation is {self._threshold}"
            )
