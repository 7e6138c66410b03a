r"""Help as plain text.

This is the only module that uses a private interface of Typer. If Rich is installed, Typer 0.20
writes ``\[required]`` for ``[required]``, although `rich_markup_mode` is None, and has no public
setting against it. ``tests/univarfl/cli/test_help.py`` fails when the interface changes.
"""

import typer.core


def use_plain_help() -> None:
    """Have Typer write help without the markup of Rich."""
    typer.core.HAS_RICH = False
