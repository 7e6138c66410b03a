"""How far a site's model may be from the one it was sent."""

import math

import torch

from task.optim.update_norm import clip_result
from task.training.loop import LocalResult

START = {"w": torch.tensor([1.0, 1.0]), "mean": torch.tensor([0.0]), "count": torch.tensor(3)}


def result() -> LocalResult:
    """Moved by 3 and 4 in w, 12 in mean; 84 sent beside: lengths 5, 13 and, with the 84, 85."""
    weights = {
        "w": torch.tensor([4.0, 5.0]),
        "mean": torch.tensor([12.0]),
        "count": torch.tensor(9),
    }
    return LocalResult(
        weights, 10, {"ce": 1.0}, {"kept": torch.ones(1)}, {"c": torch.tensor([84.0])}
    )


def test_a_long_one_is_scaled_as_one_vector() -> None:
    found = clip_result(result(), START, 8.5)
    assert torch.allclose(found.weights["w"], torch.tensor([1.3, 1.4]))
    assert torch.allclose(found.weights["mean"], torch.tensor([1.2]))
    assert torch.allclose(found.extra["c"], torch.tensor([8.4]))
    assert found.weights["count"] == 9
    assert found.weights["w"].dtype == torch.float32
    assert found.state == result().state


def test_a_short_one_stays_bit_for_bit() -> None:
    whole = result()
    assert clip_result(whole, START, 85.0) is whole


def test_one_that_is_not_finite_is_not_made_so() -> None:
    whole = result()
    whole.weights["w"][0] = math.inf
    assert not torch.isfinite(clip_result(whole, START, 1.0).weights["w"]).all()
