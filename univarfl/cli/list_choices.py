"""``univarfl list``: methods, strategies, data sets and everything else that can be chosen."""

from typing import Annotated

import typer

LIST_HELP = """List methods, strategies, data, models and all keys.

\b
  univarfl list methods
  univarfl list data
  univarfl list keys
\b
Without a word it names what can be listed. 'keys' shows every setting with its default.
"""


def complete_kind(incomplete: str) -> list[str]:
    """Return the words that can follow ``univarfl list``."""
    from univarfl.cli.listing import kinds  # noqa: PLC0415

    return [kind for kind in kinds() if kind.startswith(incomplete)]


def list_choices(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[WHAT]",
            help="What to list, such as methods.",
            show_default=False,
            autocompletion=complete_kind,
        ),
    ] = None,
) -> None:
    """List what can be chosen."""
    from univarfl.cli.listing import kinds, listing  # noqa: PLC0415

    if what is None:
        print("\n".join(f"univarfl list {kind}" for kind in kinds()))
        return
    rows = listing(what)
    width = max(len(name) for name, _ in rows)
    for name, text in rows:
        print(f"{name:<{width}}  {text}".rstrip())
