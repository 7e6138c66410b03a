"""Is a tensor finite?"""

import math

import pytest
import torch

from task.tensors import is_finite

TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 500, 999])
def test_one_number_that_is_not_finite_is_found(
    dtype: torch.dtype, wrong: float, place: int
) -> None:
    value = torch.linspace(-3, 3, 1000, dtype=dtype)
    assert is_finite(value)
    value[place] = wrong
    assert not is_finite(value)
    value[-place] = -wrong
    assert not is_finite(value)


def test_the_largest_numbers_are_finite() -> None:
    for dtype in TYPES:
        largest = torch.finfo(dtype).max
        assert is_finite(torch.tensor([largest, -largest] * 4, dtype=dtype))


def test_no_numbers_and_whole_numbers_are_finite() -> None:
    assert is_finite(torch.empty(0, 3))
    assert is_finite(torch.tensor([2**53, -(2**53)]))
    assert is_finite(torch.tensor(7.0))
