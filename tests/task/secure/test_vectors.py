"""Losses in masked vectors: bounded, so that one client cannot overflow the sum of all."""

import math

import numpy as np
import pytest
import torch

from task.errors import TrainingError
from task.secure.vectors import score_vector, update_vector
from task.secure.vectors.update_vector import UpdateVector
from task.training.evaluation import Score

KEY = bytes(32)


def test_the_mean_loss_of_an_update_is_bounded_on_both_sides() -> None:
    layout = UpdateVector({"w": torch.zeros(2)}, ["a", "b", "c", "d"], "stochastic")
    parts = layout.fixed({"w": torch.zeros(2)}, 0.5, KEY)
    losses = dict(zip("abcd", (1e30, math.inf, -1e30, -math.inf), strict=True))
    _, means = layout.unpack(layout.pack(parts, losses, 0.5, KEY), 0.5)
    most = update_vector.MAX_LOSS
    assert list(means.values()) == pytest.approx([most, most, -most, -most], rel=1e-6)
    with pytest.raises(TrainingError, match="a loss is NaN"):
        layout.pack(parts, {"a": math.nan}, 0.5, KEY)


@pytest.mark.parametrize("loss", [1e40, math.inf, math.nan])
def test_a_loss_that_is_no_bounded_number_is_scored_as_the_largest(loss: float) -> None:
    correct, rounded = score_vector.pack_score(Score(5, 2, loss), KEY).tolist()
    assert correct == 2
    assert rounded * score_vector.LOSS_UNIT == pytest.approx(score_vector.MAX_LOSS, rel=1e-6)


def test_losses_of_scores_are_rounded_without_bias() -> None:
    """The sum of many has the error of random rounding, and no more."""
    score, count = Score(5, 2, 3.14159), 20_000
    total = sum(score_vector.pack_score(score, n.to_bytes(32, "big")) for n in range(count))
    found = score_vector.unpack_scores(np.asarray(total), 5 * count)
    assert found.correct == 2 * count
    assert found.loss / count == pytest.approx(score.loss, abs=5 * 2.0**-17 / math.sqrt(count))
