"""Our methods compute what papers and releases say, to a millionth."""

from pathlib import Path

import pytest

from tests.conformance.cases import Comparison, comparisons

MOST = 1e-6
PAGE = Path(__file__).parents[2] / "docs" / "results" / "conformance.md"


@pytest.mark.parametrize(
    "found", comparisons(), ids=lambda each: f"{each.method}-{each.follows}-{each.quantity}"
)
def test_a_quantity_is_that_of_the_reference(found: Comparison) -> None:
    assert found.difference < MOST


def test_the_page_has_each_quantity() -> None:
    text = PAGE.read_text()
    for found in comparisons():
        assert f"| {found.method} | {found.follows} | {found.quantity} |" in text


def test_each_quantity_is_sensitive() -> None:
    """A change of a thousandth in the reference is found."""
    for found in comparisons():
        changed = Comparison("", "", "", found.ours, found.reference * 1.001)
        assert changed.difference > MOST
