"""The bar of a command with several long steps."""

import io
import logging

import pytest
from rich.console import Console

from univarfl.terminal.steps import steps_on, steps_on_terminal

logger = logging.getLogger("univarfl")


def test_the_bar_counts_completed_steps_and_lines_stand_above_it() -> None:
    screen = io.StringIO()
    before = logger.handlers[:]
    with steps_on(Console(file=screen, force_terminal=True, width=80), 2) as begin:
        begin("making [model].pt2")
        logger.info("model.pt2: agrees")
        begin("comparing")
    shown = screen.getvalue()
    assert "model.pt2: agrees" in shown
    assert "1/2" in shown
    assert "comparing" in shown
    assert logger.handlers == before


def test_elsewhere_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with steps_on_terminal(2) as begin:
        begin("first")
    assert capsys.readouterr() == ("", "")
