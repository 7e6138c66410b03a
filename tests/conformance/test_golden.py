"""Our methods compute the values that were found outside this project."""

from pathlib import Path

import pytest

from tests.conformance.golden import Golden, golden_values

MOST = 1e-6
PAGE = Path(__file__).parents[2] / "docs" / "results" / "conformance.md"


@pytest.mark.parametrize(
    "found", golden_values(), ids=lambda each: f"{each.method}-{each.follows}-{each.quantity}"
)
def test_a_quantity_has_the_value_from_outside(found: Golden) -> None:
    assert found.difference < MOST


def test_the_page_has_each_quantity() -> None:
    text = PAGE.read_text()
    for found in golden_values():
        assert f"| {found.method} | {found.follows} | {found.quantity} |" in text
