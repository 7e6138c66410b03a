"""One masked sum, stage by stage, after which the server knows the sum alone."""

import logging
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from server_app.nodes.assignment import WorkUnit
from server_app.rounds.context import RoundContext
from server_app.rounds.masked.asking import Asked, Stages
from task.errors import ProtocolError
from task.protocol.envelope import NONCE_BYTES, Kind
from task.protocol.masking.messages import AGREE, KEYS, SHARES, UNMASK, VECTOR, ScoreReply
from task.protocol.masking.rows import (
    AgreeRow,
    KeysRow,
    ScoreRow,
    SharesRow,
    UnmaskRow,
    from_hex,
    to_hex,
)
from task.protocol.tensors import PackedTensors, check_tensors
from task.secure.coordinator import Coordinator, TooFewError
from task.secure.participant import Revealed
from task.secure.primitives.mask_stream import Vector
from task.secure.primitives.signing import der
from task.secure.transcript import Scope, View, weights_hash
from task.tensors import Tensors

LEFT_OUT = "a sum of this model was signed before, without it or with others"

logger = logging.getLogger("univarfl")


class MaskedSumming:
    """One attempt at a masked sum.

    The caller asks for the reports, between `prepare` and `unmask`.

    Args:
        context: the run.
        scope: the attempt.
        units: which worker has which participants.
        coordinator: knows the participants' counts and weights.
        least: how many participants the sum must hold, at least the threshold.
        length: of the sum, in numbers.
        weights: those of the scope; None for the global model's.

    Attributes:
        stages: asks the workers.
        survivors: the participants that the sum holds so far.
    """

    def __init__(
        self,
        context: RoundContext,
        scope: Scope,
        units: Sequence[WorkUnit],
        coordinator: Coordinator,
        least: int,
        length: int,
        weights: Tensors | None = None,
    ) -> None:
        self._context, self._units, self._least = context, units, least
        self._coordinator = coordinator
        self._scope = {
            "purpose": scope.purpose, "model": scope.model, "keys_nonce": scope.nonce,
            "layer": scope.layer, "parameters": scope.parameters,
        }  # fmt: skip
        self.stages = Stages(context, scope.round, scope.attempt, units)
        self.survivors: set[int] = set()
        self._round = scope.round
        self._weights = (
            context.model.packed_weights if weights is None else PackedTensors.of(weights)
        )
        self._total = np.zeros(length, np.int64)

    def prepare(self, max_norm: float = 0.0) -> View:
        """Collect keys and sealed shares; return what all participants are then shown.

        Args:
            max_norm: the largest update norm; 0 for any.

        Raises:
            TooFewError: fewer than the threshold have sent them.
        """
        coordinator = self._coordinator

        def take_keys(client: int, row: KeysRow) -> None:
            if row.advert is None or row.advert.client != client:
                raise ProtocolError("it sends no keys, or another client's")
            coordinator.add_advert(row.advert, row.signed)

        def take_boxes(client: int, row: SharesRow) -> None:
            coordinator.add_boxes(client, from_hex(row.boxes))

        everyone = [client for unit in self._units for client in unit.clients]
        self.stages.rows(KEYS, everyone, lambda _: self._scope, KeysRow, take_keys)
        setup = coordinator.setup()
        left_out = set(everyone) - setup.adverts.keys() - self.stages.reasons.keys()
        self.stages.reasons |= dict.fromkeys(left_out, LEFT_OUT)
        fields = {
            **self._scope,
            "threshold": setup.threshold,
            "uniform": setup.uniform,
            "adverts": [setup.adverts[client] for client in sorted(setup.adverts)],
            "absent": list(setup.absent),
        }
        self.stages.rows(SHARES, setup.adverts, lambda _: fields, SharesRow, take_boxes)
        return coordinator.view(setup, max_norm)

    def fields(self, view: View, clients: Sequence[int]) -> dict[str, Any]:
        """Return the fields that a request for reports has in any case."""
        boxes = {str(client): to_hex(self._coordinator.boxes_for(client)) for client in clients}
        return {
            **self._scope,
            "weights": self._weights,
            "members": list(view.members),
            "boxes": boxes,
        }

    def collect(self, kind: Kind[Asked, ScoreReply], view: View, more: Mapping[str, Any]) -> None:
        """Have the members report, and add each worker's masked sum; note who reports nothing.

        Args:
            kind: of the reports.
            view: what the members are shown.
            more: the fields of a request besides those that each has.
        """
        reasons = self.stages.reasons
        for unit, reply in self.stages.replies(
            kind, view.members, lambda clients: {**self.fields(view, clients), **more}
        ):
            try:
                self.add(reporting_clients(unit, reply, reasons), reply.masked)
            except ProtocolError as error:
                for client in unit.clients:
                    reasons.setdefault(client, str(error))

    def add(self, clients: Sequence[int], masked: PackedTensors) -> None:
        """Add a worker's masked sum.

        Args:
            clients: those of the worker's participants whose reports it holds.
            masked: the sum.

        Raises:
            ProtocolError: it has another form; nothing was added.
        """
        found = masked.unpack()
        check_tensors(found, {VECTOR: torch.from_numpy(self._total)}, summed=True)
        np.add(self._total, found[VECTOR].numpy(), out=self._total)
        self.survivors |= set(clients)

    def unmask(self, view: View) -> Vector:
        """Have the survivors sign who they are and reveal their shares; return the sum.

        Raises:
            TooFewError: too few participants are left.
            ProtocolError: the shares cannot be used.
        """
        coordinator, survivors = self._coordinator, sorted(self.survivors)
        if len(survivors) < self._least:
            raise TooFewError(
                f"{len(survivors)} participants have reported, and {self._least} are needed"
            )

        def take_signature(client: int, row: AgreeRow) -> None:
            if row.signature is None:
                raise ProtocolError("it does not sign")
            signature = bytes.fromhex(row.signature)
            coordinator.add_signature(view, survivors, client, signature)

        def take_shares(client: int, row: UnmaskRow) -> None:
            revealed = Revealed(from_hex(row.seeds), from_hex(row.mask_keys))
            coordinator.add_revealed(view, survivors, client, revealed)

        agreed = {**self._scope, "survivors": survivors}
        self.stages.rows(AGREE, survivors, lambda _: agreed, AgreeRow, take_signature)
        signatures = coordinator.signatures()
        signed = {"signatures": to_hex(signatures), "members": len(view.members)}
        fields = {**self._scope, **signed}
        self.stages.rows(UNMASK, signatures, lambda _: fields, UnmaskRow, take_shares)
        coordinator.unmask(view, survivors, self._total)
        restoration = coordinator.restoration
        for giver, owners in sorted(restoration.wrong.items()):
            if giver in restoration.liars:
                logger.warning("round %d: participant %d sent wrong shares", self._round, giver)
                continue
            for owner in sorted(owners):
                logger.warning(
                    "round %d: participant %d's share of the secret of participant %d is wrong; "
                    "one of the two has changed it", self._round, giver, owner,
                )  # fmt: skip
        return self._total


def reporting_clients(unit: WorkUnit, reply: ScoreReply, reasons: dict[int, str]) -> list[int]:
    """Return the clients whose reports a worker's sum holds; note the reasons of the others.

    Raises:
        ProtocolError: a row cannot be used, or no client has reported.
    """
    found = []
    for client in unit.clients:
        row = ScoreRow.checked(reply.fields_of(client))
        if row.reason:
            reasons[client] = row.reason
        else:
            found.append(client)
    if not found:
        raise ProtocolError("none of its clients has reported")
    return found


def site_keys(context: RoundContext, units: Sequence[WorkUnit]) -> dict[int, bytes] | None:
    """Return each site's public key in DER, by client; None in a simulation."""
    if not context.sites:
        return None
    return {client: der(unit.node.public_key) for unit in units for client in unit.clients}


def new_scope(
    context: RoundContext,
    server_round: int,
    attempt: int,
    purpose: str,
    weights: Tensors | None = None,
) -> Scope:
    """Return an attempt to add something up of a model, the global one if there is no other."""
    model = context.model.weights if weights is None else weights
    return Scope(
        context.run.id, server_round, attempt, context.run.experiment,
        weights_hash(model), secrets.token_hex(NONCE_BYTES), purpose,
    )  # fmt: skip
