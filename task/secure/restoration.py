"""Restoring the participants' secrets from their shares. Some shares may be wrong."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, combinations, islice

from task.errors import ProtocolError
from task.secure.mask_secrets import place_of
from task.secure.primitives.shamir import combine
from task.secure.primitives.share_decoding import decode

MOST_TRIES = 1_100  # sets of shares that are left out, one after the other, if some are wrong
MOST_WORK = 10_000_000  # the squares of the numbers of shares in all tries: some 30 s


class Restoration:
    """The secrets of one attempt at a round.

    A wrong share has one of two causes: the giver changed it, or the owner of the secret sealed a
    wrong one for the giver. So participants that lie can bring an honest one under suspicion, each
    by its own secret. A giver lies for certain if its shares of more secrets than that are wrong.

    Args:
        threshold: how many right shares give a secret.
        colluding: how many participants may lie.

    Attributes:
        wrong: by giver, the owners whose secrets it has given a wrong share of.
    """

    def __init__(self, threshold: int, colluding: int) -> None:
        self._threshold, self._colluding = threshold, colluding
        self.wrong: defaultdict[int, set[int]] = defaultdict(set)

    @property
    def liars(self) -> set[int]:
        """The participants that lie for certain; their other shares are not used."""
        return {giver for giver, owners in self.wrong.items() if len(owners) > self._colluding}

    def restore(
        self, shares: Mapping[int, bytes], owner: int, fits: Callable[[bytes], bool]
    ) -> bytes:
        """Return a secret from its shares, and note which of them are wrong.

        Half of the shares above the threshold may be wrong; among few participants, more.

        Args:
            shares: by giver.
            owner: whose secret it is.
            fits: whether a secret is the one that its owner has announced.

        Raises:
            ProtocolError: no shares that were tried give it.
        """
        liars = self.liars
        trusted_first = sorted(
            (giver for giver in shares if giver not in liars),
            key=lambda giver: (giver in self.wrong, giver),
        )
        secret = combined(shares, trusted_first[: self._threshold])
        if secret is not None and fits(secret):
            others = trusted_first[: self._threshold - 1]
            for giver in trusted_first[self._threshold :]:
                if giver in self.wrong and combined(shares, [*others, giver]) != secret:
                    self.wrong[giver].add(owner)
            return secret
        suspects_first = trusted_first[::-1]
        spare = len(suspects_first) - self._threshold
        omissions = chain.from_iterable(
            combinations(suspects_first, size) for size in range(spare + 1)
        )
        tries = min(MOST_TRIES, 1 + MOST_WORK // max(1, len(suspects_first)) ** 2)
        for left_out in islice(omissions, tries):
            rest = {place_of(c): shares[c] for c in suspects_first if c not in left_out}
            try:
                secret, places = decode(rest, self._threshold)
            except ValueError:
                continue
            if fits(secret):
                for giver in suspects_first:
                    if giver in left_out or place_of(giver) in places:
                        self.wrong[giver].add(owner)
                return secret
        raise ProtocolError(f"the shares of participant {owner}'s secret do not give it")


def combined(shares: Mapping[int, bytes], givers: Sequence[int]) -> bytes | None:
    """Return the secret that the shares of some givers give; None if they give none."""
    try:
        return combine({place_of(giver): shares[giver] for giver in givers})
    except ValueError:
        return None
