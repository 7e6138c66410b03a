"""Training in a masked round: the accumulator gets the sum of the updates, and no single one."""

import math
from collections.abc import Sequence
from typing import Any

from server_app.aggregation.accumulator import UpdateAccumulator
from server_app.aggregation.client_update import ClientUpdate
from server_app.aggregation.strategies.base import strategy_of
from server_app.aggregation.training_replies import describe
from server_app.config.compatibility.masking import most_colluding, secure_threshold
from server_app.nodes.assignment import WorkUnit
from server_app.rounds.context import RoundContext
from server_app.rounds.masked.summing import MaskedSumming, new_scope, site_keys
from task.errors import ProtocolError, TrainingError
from task.protocol.masking.messages import REPORT, ReportReply
from task.secure.coordinator import Coordinator, TooFewError
from task.secure.primitives.mask_stream import Vector
from task.secure.rules.threshold import weights_of
from task.secure.transcript import View
from task.secure.vectors.update_vector import UpdateVector

SILENT = "it did not report in time, and the others went on without it"


class MaskedTraining:
    """One attempt at a round whose updates are masked.

    Args:
        context: the run.
        server_round: the round.
        attempt: the attempt at it.
        units: which worker has which clients.
        accumulator: takes the sum, and the outcome of each client.
        least: how many updates the sum must hold, at least the threshold.
    """

    def __init__(
        self,
        context: RoundContext,
        server_round: int,
        attempt: int,
        units: Sequence[WorkUnit],
        accumulator: UpdateAccumulator,
        least: int,
    ) -> None:
        self._accumulator, self._units, experiment = accumulator, units, context.experiment
        self._max_norm = experiment.secure.max_norm or 0.0
        clients = len(accumulator.shares)
        scope = new_scope(context, server_round, attempt, "train")
        threshold = secure_threshold(experiment, clients)
        uniform = strategy_of(experiment).weighs_alike()
        if experiment.privacy.per_client:  # a higher threshold lets each add less noise
            threshold, uniform = least, True
        coordinator = Coordinator(
            scope,
            threshold,
            most_colluding(experiment, clients),
            uniform,
            accumulator.examples,
            site_keys(context, units),
        )
        terms, rule = context.worker.masked_terms(), experiment.secure.rounding
        self._layout = UpdateVector(accumulator.before, terms, rule)
        self._sum = MaskedSumming(context, scope, units, coordinator, least, self._layout.length)
        self._updates: dict[int, ClientUpdate] = {}

    def run(self) -> dict[str, float]:
        """Run every stage, add the sum to the accumulator, and return the mean losses.

        If the sum cannot be unmasked, no client counts, and no loss is returned.
        """
        losses: dict[str, float] = {}
        reason, given_up, reasons = SILENT, False, self._sum.stages.reasons
        try:
            view = self._sum.prepare(self._max_norm)
            setup = view.setup
            self._accumulator.shares |= weights_of(setup.counts, setup.weighs_alike, 1.0)
            self._report(view)
            losses = self._add_sum(self._sum.unmask(view))
        except (TooFewError, ProtocolError, TrainingError) as error:
            self._updates.clear()
            reason, given_up = str(error), True
        for unit in self._units:
            for client in unit.clients:
                if client not in self._updates:
                    well = given_up and client not in reasons
                    update = ClientUpdate(client, unit.node.name, given_up=well)
                    self._accumulator.refuse([update], reasons.get(client, reason))
        return losses

    def _report(self, view: View) -> None:
        """Have the members train, and add up what they report."""

        def fields(clients: list[int]) -> dict[str, Any]:
            return {
                **self._sum.fields(view, clients),
                "accepted": [0] * len(clients),
                "shares": [],
                "max_norm": view.max_norm,
            }

        for unit, reply in self._sum.stages.replies(REPORT, view.members, fields):
            try:
                self._add_report(unit, reply)
            except ProtocolError as error:
                self._sum.stages.reasons |= dict.fromkeys(unit.clients, str(error))

    def _add_report(self, unit: WorkUnit, reply: ReportReply) -> None:
        """Add a worker's masked sum.

        Raises:
            ProtocolError: it cannot be used; none of its clients counts.
        """
        trained: dict[int, ClientUpdate] = {}
        for client in unit.clients:
            update = ClientUpdate(client, unit.node.name)
            try:
                trained[client] = describe(update, reply.row(client), self._accumulator)
            except ProtocolError as error:
                self._sum.stages.reasons[client] = str(error)
                if not reply.reports_failure(client):
                    raise ProtocolError(
                        f"its worker's sum holds client {client}: {error}"
                    ) from None
        if not trained:
            return
        self._sum.add(list(trained), reply.masked)
        self._updates |= trained

    def _add_sum(self, total: Vector) -> dict[str, float]:
        """Add the sum to the accumulator; return the mean losses.

        Raises:
            TrainingError: no valid updates can have this sum.
        """
        updates = [self._updates[client] for client in sorted(self._updates)]
        weight = math.fsum(self._accumulator.shares[update.client] for update in updates)
        totals, losses = self._layout.unpack(total, weight)
        self._accumulator.add_sum(updates, totals, {})
        return losses
