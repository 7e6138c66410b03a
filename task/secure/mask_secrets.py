"""A participant's secrets in one attempt, and the masks that come from them."""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from task.secure.primitives.hashing import digest
from task.secure.primitives.key_agreement import KEY_BYTES, KeyPair, derive
from task.secure.primitives.mask_stream import Vector, add_stream, subtract_stream
from task.secure.primitives.sealing import seal, unseal
from task.secure.primitives.shamir import SHARE_BYTES, split
from task.secure.transcript import Setup, View

Pieces = tuple[bytes, bytes]  # the share of a seed and that of a mask key; secret


@dataclass(frozen=True)
class MaskSecrets:
    """The secrets of one participant in one attempt; none of them is shown.

    Attributes:
        sealing: the key pair by which others seal shares for it.
        masking: the key pair of the masks that it has with others.
        seed: of its own mask.
    """

    sealing: KeyPair = field(default_factory=KeyPair, repr=False)
    masking: KeyPair = field(default_factory=KeyPair, repr=False)
    seed: bytes = field(default_factory=lambda: secrets.token_bytes(KEY_BYTES), repr=False)

    def split(self, setup: Setup) -> dict[int, Pieces]:
        """Return each participant's shares of the seed and of the mask key."""
        places = {client: place_of(client) for client in setup.adverts}
        seeds = split(self.seed, places.values(), setup.threshold)
        keys = split(self.masking.private_bytes(), places.values(), setup.threshold)
        return {client: (seeds[place], keys[place]) for client, place in places.items()}

    def seal(self, setup: Setup, own: int, other: int, pieces: Pieces) -> bytes:
        """Return shares, sealed by a participant for another one."""
        key = self._sealing_key(setup, own, other, other)
        return seal(key, b"".join(pieces), setup.hash)

    def unseal(self, setup: Setup, own: int, other: int, box: bytes) -> Pieces:
        """Return the shares that another participant sealed for this one.

        Raises:
            ProtocolError: they were changed, or sealed for someone or something else.
        """
        content = unseal(self._sealing_key(setup, other, own, other), box, setup.hash)
        return content[:SHARE_BYTES], content[SHARE_BYTES:]

    def mask(self, vector: Vector, view: View, own: int) -> None:
        """Add all masks of a participant to its update in place."""
        add_stream(vector, own_key(self.seed, view, own))
        apply_pairs(vector, self.masking, view, own, set(view.members) - {own})

    def _sealing_key(self, setup: Setup, sender: int, receiver: int, other: int) -> bytes:
        purpose = f"shares of {sender} for {receiver}"
        return self.sealing.agree(
            bytes.fromhex(setup.adverts[other].sealing_key), setup.hash, purpose
        )


def apply_pairs(vector: Vector, pair: KeyPair, view: View, own: int, others: Iterable[int]) -> None:
    """Add the masks that a participant has with others to a vector in place.

    Args:
        vector: an update, or a sum.
        pair: the participant's mask keys.
        view: what masks are bound to.
        own: the participant; the lower number of two adds, the higher subtracts.
        others: the others.
    """
    for other in sorted(others):
        low, high = sorted((own, other))
        public = bytes.fromhex(view.setup.adverts[other].mask_key)
        key = pair.agree(public, view.hash, f"mask of {low} and {high}")
        (add_stream if own == low else subtract_stream)(vector, key)


def remove_masks(
    total: Vector, view: View, seeds: Mapping[int, bytes], mask_keys: Mapping[int, KeyPair]
) -> None:
    """Subtract from a sum the masks that do not cancel, in place.

    Args:
        total: the sum of the survivors' masked updates.
        view: what masks are bound to.
        seeds: each survivor's.
        mask_keys: of each member that did not survive.
    """
    for client, seed in sorted(seeds.items()):
        subtract_stream(total, own_key(seed, view, client))
    for client, pair in sorted(mask_keys.items()):
        apply_pairs(total, pair, view, client, seeds)


def own_key(seed: bytes, view: View, client: int) -> bytes:
    """Return the key of a participant's own mask."""
    return derive(seed, view.hash, f"own mask of {client}")


def commitment(seed: bytes) -> bytes:
    """Return what a participant publishes of its seed, so that a wrong one is noticed."""
    return digest("seed", seed)


def place_of(client: int) -> int:
    """Return the place of a client's shares, from 1."""
    return client + 1
