"""The sum of a worker's masked vectors: updates, or scores."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from client_app.masked.party import Party
from task.errors import ProtocolError
from task.protocol.masking.messages import VECTOR
from task.protocol.masking.rows import from_hex
from task.protocol.tensors import PackedTensors
from task.secure.primitives.mask_stream import Vector
from task.secure.transcript import View


class MaskedSum:
    """The sum of what a worker's participants report.

    Args:
        party: the participants.
        members: everyone whose shares have been sent on.
        boxes: for each client of the worker, by sender, the shares that are sealed for it.
        max_norm: the largest update norm that the experiment asks for; 0 for any.
    """

    def __init__(
        self,
        party: Party,
        members: Sequence[int],
        boxes: Mapping[str, Mapping[str, str]],
        max_norm: float = 0.0,
    ) -> None:
        self._party, self._members, self._boxes = party, members, boxes
        self._max_norm = max_norm
        self._view: View | None = None
        self._total: Vector | None = None

    def open(self, client: int) -> float:
        """Have a participant check what it is shown; return the weight of its update.

        Args:
            client: the participant.

        Raises:
            ProtocolError: the participant refuses.
        """
        participant = self._party.participant(client)
        setup = participant.progress.setup
        if setup is None:
            raise ProtocolError("this participant has shared no secrets")
        if self._view is None:
            self._view = View(setup, self._members, self._max_norm)
        boxes = from_hex(self._boxes.get(str(client), {}))
        return participant.open_report(self._view, boxes, self._party.ledger(client))

    def add(self, client: int, vector: Vector) -> None:
        """Mask a participant's vector in place, and add it.

        Args:
            client: the participant.
            vector: what it reports, with all noise.

        Raises:
            ProtocolError: it has not opened the report.
        """
        self._party.participant(client).mask(vector)
        if self._total is None:
            self._total = vector
        else:
            np.add(self._total, vector, out=self._total)

    def packed(self) -> PackedTensors:
        """Return the sum; empty if every client failed."""
        if self._total is None:
            return PackedTensors()
        return PackedTensors.of({VECTOR: torch.from_numpy(self._total)})
