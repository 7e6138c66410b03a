"""What participants are shown, and its hashes, which must be the same for all of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from task.protocol.masking.rows import Advert
from task.secure.primitives.hashing import digest


@dataclass(frozen=True)
class Scope:
    """One attempt at one round of one run; no key serves two.

    Attributes:
        run: the run's id.
        round: the server's round.
        attempt: the attempt at it, from 1.
        experiment: the settings of local training as JSON.
        purpose: what is added up: updates (``train``), or scores of the model (``validate``).
    """

    run: str
    round: int
    attempt: int
    experiment: str
    purpose: str = "train"

    @cached_property
    def hash(self) -> bytes:
        """A hash of it."""
        return digest("attempt", self.run, self.round, self.attempt, self.experiment, self.purpose)


@dataclass(frozen=True)
class Setup:
    """Who takes part in an attempt, with which keys and weights.

    Attributes:
        scope: the attempt.
        threshold: how many participants the round needs.
        uniform: whether all updates weigh the same.
        adverts: by participant.
        absent: the image counts of the round's other clients.
    """

    scope: Scope
    threshold: int
    uniform: bool
    adverts: Mapping[int, Advert]
    absent: Mapping[int, int]

    @cached_property
    def counts(self) -> dict[int, int]:
        """The image counts of all clients of the round, ascending."""
        present = {client: advert.examples for client, advert in self.adverts.items()}
        return dict(sorted({**self.absent, **present}.items()))

    @property
    def weighs_alike(self) -> bool:
        """Whether all participants have the same weight; in a sum of scores images decide."""
        return self.uniform and self.scope.purpose == "train"

    @cached_property
    def hash(self) -> bytes:
        """A hash of it and of the attempt."""
        signed = [
            part
            for _, advert in sorted(self.adverts.items())
            for part in (advert_statement(self.scope, advert), advert.signer)
        ]
        absent = chain.from_iterable(sorted(self.absent.items()))
        return digest(
            "setup", self.scope.hash, self.threshold, self.uniform, len(self.adverts),
            len(self.absent), *signed, *absent,
        )  # fmt: skip


@dataclass(frozen=True)
class View:
    """What participants are shown when they report.

    Attributes:
        setup: what they were shown before.
        members: the participants whose shares were sent on.
        model: a hash of the global model.
        max_norm: the largest update norm that the experiment asks for; 0 for any.
    """

    setup: Setup
    members: Sequence[int]
    model: bytes
    max_norm: float

    @cached_property
    def hash(self) -> bytes:
        """A hash of it and of all that was shown before. Every mask is bound to it."""
        norm, members = float(self.max_norm), sorted(self.members)
        return digest("view", self.setup.hash, self.model, norm, *members)

    @cached_property
    def request(self) -> bytes:
        """A hash of all that decides the updates and the weights of the round.

        It is the same in each attempt at the round, so that a participant can compare two of them.
        """
        setup, scope = self.setup, self.setup.scope
        clients = chain.from_iterable(setup.counts.items())
        return digest(
            "request", scope.run, scope.round, scope.experiment, scope.purpose,
            setup.uniform, self.model, float(self.max_norm), *clients,
        )  # fmt: skip


def advert_statement(scope: Scope, advert: Advert) -> bytes:
    """Return the hash that a participant signs with its keys."""
    return digest(
        "advert", scope.hash, advert.client, advert.examples, advert.sealing_key, advert.mask_key,
        advert.commitment, advert.roster,
    )  # fmt: skip


def agreement_statement(view: View, survivors: Iterable[int]) -> bytes:
    """Return the hash that a participant signs with the survivors."""
    return digest("survivors", view.hash, *sorted(survivors))


def roster_hash(keys: Mapping[str, bytes]) -> str:
    """Return a hash of the participants' names and keys, in hexadecimal."""
    parts = [part for name in sorted(keys) for part in (name, keys[name])]
    return digest("roster", *parts).hex()


def model_hash(weights: bytes) -> bytes:
    """Return a hash of the global weights as they were sent."""
    return digest("model", weights)
