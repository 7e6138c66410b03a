"""What participants are shown, and its hashes, which must be the same for all of them."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from task.protocol.masking.rows import Advert
from task.registry import named
from task.secure.primitives.hashing import digest

if TYPE_CHECKING:  # they import PyTorch, and commands of a site need only the roster's hash
    from torch import nn

    from task.tensors import Tensors


COLUMNS = "columns"  # the purpose of sums of columns
CANONICAL = "task.data.sources.families.schema_file:canonical"  # imported for sums of columns alone


@dataclass(frozen=True)
class Scope:
    """One attempt at one round of one run; no key serves two.

    Attributes:
        run: the run's id.
        round: the server's round.
        attempt: the attempt at it, from 1.
        experiment: the settings of local training as JSON.
        model: the hash of the global weights, by `weights_hash`.
        nonce: random, and new whenever keys are collected.
        purpose: what is added up: updates (``train``), scores of the model (``validate``), the
            moments of the inputs of one of its layers (``measure``), ``features``, or the columns
            of the rows (``columns``).
        layer: the layer whose inputs are measured; empty for another purpose.
        parameters: the hash of the model without its statistics, by `parameters_hash`; likewise.
    """

    run: str
    round: int
    attempt: int
    experiment: str
    model: str
    nonce: str
    purpose: str = "train"
    layer: str = ""
    parameters: str = ""

    @cached_property
    def hash(self) -> bytes:
        """A hash of it."""
        return digest(
            "attempt", self.run, self.round, self.attempt, self.experiment, self.model, self.nonce,
            self.purpose, self.layer, self.parameters,
        )  # fmt: skip

    @property
    def report_name(self) -> str:
        """The name under which reports are counted: the purpose and the model."""
        return f"{self.purpose}-{self.model}"

    @property
    def sum_name(self) -> str:
        """The name under which the participants of the sum are recorded.

        It has no run and no round: participants add up one set of updates of a model, whenever it
        is. All layers that a run measures have one name, so that they have one set. Columns have
        one name for each schema, because the same rows are in the sums of all runs.
        """
        if self.purpose == COLUMNS:
            return f"{self.purpose}-{digest('columns of', self._schema).hex()}"
        if self.purpose != "measure":
            return self.report_name
        return f"{self.purpose}-{digest('measured in', self.run).hex()}"

    @property
    def of_training(self) -> bool:
        """Whether the sum is over training images, whose counts are the weights."""
        return self.purpose != "validate"

    @cached_property
    def settings(self) -> str:
        """A hash of the experiment, in hexadecimal; of columns, of what decides their sum."""
        if self.purpose == COLUMNS:
            names = json.dumps(json.loads(self.experiment)["partition"].get("names"))
            duplicates = json.dumps(json.loads(self.experiment)["data"].get("duplicates"))
            parts = (self._schema, duplicates, names)
            return digest("settings of columns", *parts).hex()
        return digest("settings", self.experiment).hex()

    @cached_property
    def _schema(self) -> str:
        """The schema of the columns, in one form however the coordinator has written it."""
        content = json.loads(self.experiment)["data"]["schema_content"]
        found: str = named(CANONICAL)(content)
        return found


@dataclass(frozen=True)
class Setup:
    """Who takes part in an attempt, with which keys and weights.

    Attributes:
        scope: the attempt.
        threshold: how many participants the round needs.
        uniform: whether all updates weigh the same.
        adverts: by participant.
        absent: the round's other clients.
    """

    scope: Scope
    threshold: int
    uniform: bool
    adverts: Mapping[int, Advert]
    absent: Sequence[int]

    @cached_property
    def counts(self) -> dict[int, int]:
        """The signed image counts of the participants, ascending by client."""
        return {client: advert.examples for client, advert in sorted(self.adverts.items())}

    @property
    def asked(self) -> int:
        """The number of clients that the round asks."""
        return len(self.adverts) + len(self.absent)

    @property
    def weighs_alike(self) -> bool:
        """Whether all participants have the same weight; in a sum of scores images decide."""
        return self.uniform and self.scope.of_training

    @property
    def equal_weights(self) -> bool:
        """Whether all weights are equal, by the setting or because the image counts are."""
        return self.weighs_alike or len(set(self.counts.values())) == 1

    @cached_property
    def hash(self) -> bytes:
        """A hash of it and of the attempt."""
        signed = [
            part
            for _, advert in sorted(self.adverts.items())
            for part in (advert_statement(self.scope, advert), advert.signer)
        ]
        return digest(
            "setup", self.scope.hash, self.threshold, self.uniform, len(self.adverts),
            len(self.absent), *signed, *sorted(self.absent),
        )  # fmt: skip


@dataclass(frozen=True)
class View:
    """What participants are shown when they report.

    Attributes:
        setup: what they were shown before.
        members: the participants whose shares were sent on.
        max_norm: the largest update norm that the experiment asks for; 0 for any.
    """

    setup: Setup
    members: Sequence[int]
    max_norm: float

    @cached_property
    def hash(self) -> bytes:
        """A hash of it and of all that was shown before. Every mask is bound to it."""
        norm, members = float(self.max_norm), sorted(self.members)
        return digest("view", self.setup.hash, norm, *members)

    def weighting(self, survivors: Iterable[int]) -> str:
        """Return a hash, in hexadecimal, of the norm bound and what decides the weights' ratios.

        If layers are measured, it is of the model's parameters, too: a run measures one model.

        It is the same in each attempt to add up these survivors' updates. The weight of the largest
        is 1, also if it drops out. So the weights of an attempt may have another common factor.
        """
        counts = ((client, self.setup.counts[client]) for client in sorted(survivors))
        return digest(
            "weighting", self.setup.uniform, float(self.max_norm), self.setup.scope.parameters,
            *chain.from_iterable(counts),
        ).hex()  # fmt: skip


def parameters_hash(model: "nn.Module", weights: "Tensors") -> str:
    """Return the hash of a model's parameters, without its statistics, in hexadecimal.

    Args:
        model: has the parameters.
        weights: their values, and statistics.
    """
    return weights_hash({name: weights[name] for name, _ in model.named_parameters()})


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


def weights_hash(weights: "Tensors") -> str:
    """Return a hash of weights in hexadecimal, which does not depend on how they were sent.

    Two zeros of different sign give the same hash.
    """
    hashed = hashlib.sha256(digest("weights", len(weights)))
    for name, value in sorted(weights.items()):
        hashed.update(digest("tensor", name, str(value.dtype), *value.shape))
        hashed.update((value + 0).reshape(-1).numpy().tobytes())
    return hashed.hexdigest()
