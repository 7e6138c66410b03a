"""A coordinator that mixes the messages of masked rounds, at sites with their own keys."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from client_app.masked.masked_sum import MaskedSum
from server_app.rounds.errors import RunFailedError
from server_app.rounds.masked.asking import Stages
from server_app.rounds.masked.summing import MaskedSumming
from server_app.rounds.masked.training import MaskedTraining
from server_app.runs.records.run_record import read_entries
from task.errors import ProtocolError
from task.protocol.envelope import Kind
from task.protocol.masking.messages import MEASURE, REPORT, SCORE, ScoreReply, ScoreRequest
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


EXACT = ("model=cnn", "data.image_size=32", "model.statistics=exact", "rounds=1", MASKED)


def measure_with(
    change: dict[str, Any], of: Collection[int], patch: pytest.MonkeyPatch
) -> dict[int, str]:
    """Have the coordinator send some sites other fields; return why they refuse, as it fills."""
    refused: dict[int, str] = {}
    original = Stages.replies

    def replies(
        self: Stages, kind: Kind[Any, Any], clients: Collection[int], fields: Any
    ) -> Iterator[Any]:
        if kind is not MEASURE:
            yield from original(self, kind, clients, fields)
            return
        yield from original(
            self, kind, clients, lambda one: {**fields(one), **(change if one[0] in of else {})}
        )
        refused.update(self.reasons)

    patch.setattr(Stages, "replies", replies)
    return refused


@pytest.mark.parametrize(
    ("change", "of"),
    [
        ({"layer": "encoder.4"}, OTHERS),  # whose inputs a model can make constant
        ({"parameters": "00" * 32}, [VICTIM]),
    ],
    ids=["another layer", "another model"],
)
@pytest.mark.slow
def test_the_masks_of_one_layer_do_not_fit_another(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any],
    of: Collection[int],
) -> None:  # fmt: skip
    refused = measure_with(change, of, monkeypatch)
    run = trained(MaskedSites(images, tmp_path / "m"), tmp_path, "run", *WORDS, *EXACT)
    assert set(of) <= refused.keys()
    found = read_entries(run)["statistics"]
    if len(of) > 1:  # too few are left
        assert list(found["readings"]) == ["averaged"] or not found["readings"]
        assert "encoder.1 cannot be measured" in found["reason"]
    else:
        assert list(found["missing"]) == [str(VICTIM)]


@pytest.mark.slow
def test_a_run_measures_one_set_of_sites_and_one_model(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums of two layers over other sites, or of two models, could differ by one site's moments."""
    grid = MaskedSites(images, tmp_path / "m")
    original = MaskedSumming.prepare

    def prepare(self: MaskedSumming, max_norm: float = 0.0) -> View:
        if self._scope["layer"] == "encoder.4":  # the second layer
            grid.dies = [("query.measure", "1")]
        return original(self, max_norm)

    monkeypatch.setattr(MaskedSumming, "prepare", prepare)
    run = trained(grid, tmp_path, "run", *WORDS, *EXACT)
    reason = read_entries(run)["statistics"]["reason"]
    assert "encoder.4 cannot be measured" in reason
    assert "this model was summed before, with the participants 0, 1, 2, 3" in reason
