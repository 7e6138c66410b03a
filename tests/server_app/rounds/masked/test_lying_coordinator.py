"""A coordinator that mixes the messages of masked rounds, at sites with their own keys."""

from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from client_app.masked.masked_sum import MaskedSum
from server_app.rounds.errors import RunFailedError
from server_app.rounds.masked.training import MaskedTraining
from task.errors import ProtocolError
from task.protocol.envelope import Kind
from task.protocol.masking.messages import REPORT, SCORE, ScoreReply, ScoreRequest
from task.secure.primitives.mask_stream import Vector
from task.secure.transcript import View
from tests.server_app.nodes.test_lies import trained
from tests.server_app.rounds.masked.test_masked_sites import (
    MASKED,
    WORDS,
    MaskedSites,
    images,
)

__all__ = ["images"]

VICTIM, OTHERS = 0, (1, 2, 3)


class MixedRequest(ScoreRequest):
    """Asks for scores with the masks of a sum of updates."""

    purpose: Literal["train"] = "train"  # type: ignore[assignment]


MIXED = Kind(SCORE.message_type, MixedRequest, ScoreReply)


def test_scores_of_others_do_not_take_the_masks_off_an_update(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One site is asked for an update and the others for scores, with the same masks.

    The masks of the first two numbers would cancel, and scores are small.
    """
    reported: list[Vector] = []
    refused: dict[int, str] = {}
    original = MaskedSum.add

    def add(self: MaskedSum, client: int, vector: Vector) -> None:
        reported.append(vector.copy())
        original(self, client, vector)

    def mixed(self: MaskedTraining, view: View) -> None:
        stages, total = self._sum.stages, self._sum._total
        asked = {
            **self._sum.fields(view, [VICTIM]), "accepted": [0], "shares": [], "max_norm": 0.0,
        }  # fmt: skip
        for _, reply in stages.replies(REPORT, [VICTIM], lambda _: asked):
            total += reply.masked.unpack()["vector"].numpy()
        for _, scored in stages.replies(MIXED, OTHERS, lambda one: self._sum.fields(view, one)):
            total[:2] += scored.masked.unpack()["vector"].numpy()
        refused.update(stages.reasons)
        self._sum.survivors |= {VICTIM, *OTHERS} - refused.keys()
        total = self._sum.unmask(view)
        error = np.abs(total[:2] - reported[0][:2]).max()
        raise ProtocolError(f"two numbers of one update are known up to {error / 2**20:.1e}")

    monkeypatch.setattr(MaskedSum, "add", add)
    monkeypatch.setattr(MaskedTraining, "_report", mixed)
    grid = MaskedSites(images, tmp_path / "m")
    with pytest.raises(RunFailedError, match="1 participants have reported"):
        trained(grid, tmp_path, "run", *WORDS, MASKED, "rounds=1", "federation.attempts=1")
    assert reported
    assert refused.keys() == set(OTHERS)
    assert all("purpose" in reason for reason in refused.values())
