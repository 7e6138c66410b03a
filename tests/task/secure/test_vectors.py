"""Losses in masked vectors: bounded, so that one client cannot overflow the sum of all."""

import math

import pytest

from task.secure.vectors import score_vector, update_vector
from task.training.evaluation import Score


def test_the_mean_loss_of_an_update_is_bounded_on_both_sides() -> None:
    most = round(update_vector.MAX_LOSS * 0.5 / update_vector.LOSS_UNIT)
    found = [update_vector.in_units(loss, 0.5) for loss in (1e30, math.inf, -1e30, -math.inf)]
    assert found == [most, most, -most, -most]


@pytest.mark.parametrize("loss", [1e40, math.inf, math.nan])
def test_a_loss_that_is_no_bounded_number_is_scored_as_the_largest(loss: float) -> None:
    most = score_vector.MAX_LOSS / score_vector.LOSS_UNIT
    assert score_vector.pack_score(Score(5, 2, loss)).tolist() == [2, most]
