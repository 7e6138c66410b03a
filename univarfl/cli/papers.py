"""``univarfl papers``: the tables of the papers, and what they cost."""

from typing import Annotated

import typer

PAPERS_HELP = """List the published numbers of the papers, and their cost.

\b
  univarfl papers
  univarfl papers univarfl_table1 feduv_table2
  univarfl papers univarfl_table1 --hours
\b
A line for each number: its sweep (univarfl sweep sweep=NAME), data set, method and settings, what
was measured, and the published value. Each line needs three runs, one for each seed; all numbers of
the same settings come from the same runs.
\b
--hours adds an estimate of the cost of one run: the operations of its local training, and the hours
in one process on this machine. The command times one training step for this. It takes some minutes
for all tables.
"""


def papers(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[SWEEP]...", show_default=False)
    ] = None,
    hours: Annotated[
        bool, typer.Option("--hours", help="Estimate the cost of a run on this machine.")
    ] = False,
) -> None:
    """List the papers' tables."""
    if hours:
        from univarfl.sweeps.papers import papers as table_of  # noqa: PLC0415

        print(table_of(names or []).to_markdown(index=False))
        return

    from tabulate import tabulate  # noqa: PLC0415

    from univarfl.sweeps.paper_tables import HEADINGS, paper_rows  # noqa: PLC0415

    print(tabulate(paper_rows(names or []), HEADINGS, "pipe", disable_numparse=True))
