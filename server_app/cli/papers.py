"""``univarfl papers``: the tables of the papers, and what they cost."""

from typing import Annotated

import typer

PAPERS_HELP = """List the tables of the papers: the published numbers, and the cost of a run.

\b
  univarfl papers
  univarfl papers univarfl_table1 feduv_table2
\b
A line for each number: its sweep (univarfl sweep sweep=NAME), data set, method and settings, the
published test accuracy, and an estimate of the cost of one run: the operations of its local
training, and hours in one process of this machine, from a training step that is timed now. Each
number needs three runs, one for each seed.
"""


def papers(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[SWEEP]...", show_default=False)
    ] = None,
) -> None:
    """List the papers' tables."""
    from server_app.sweep.papers import papers as table_of  # noqa: PLC0415

    print(table_of(names or []).to_markdown(index=False))
