"""``univarfl forget``: a run without some of its clients."""

import shlex
from typing import Annotated

import typer

from univarfl.cli.arguments import RunDirectory

FORGET_HELP = """Remove clients from a run's model, exactly and at once.

\b
  univarfl forget runs/RUN 3             in a simulation: the number of the client
  univarfl forget runs/RUN north         on sites: the name of the site
\b
RUN was made with method=ridge or method=ncm and sums.keep=true. The sums of the other clients give
a new run beside it. Its model has the same SHA-256 as one that was made without these clients.
Their sums are deleted in RUN, and in the runs from which RUN has them. RUN itself stays, with its
model: delete it if it must go, and all copies of the model.
Exit codes: 0 written, 1 it failed, 2 bad input.
"""


def forget(
    run: RunDirectory,
    clients: Annotated[list[str], typer.Argument(metavar="CLIENTS...", show_default=False)],
) -> None:
    """Remove clients from a model."""
    from server_app.runs.records.run_record import read_record  # noqa: PLC0415
    from server_app.tracking.closing import closing_lines  # noqa: PLC0415
    from server_app.tracking.console import show_progress  # noqa: PLC0415
    from univarfl.forgetting import forget as write  # noqa: PLC0415

    show_progress()
    found = write(run, clients)
    record = read_record(found.directory)
    names = ", ".join(clients)
    print(f"a model without {names}: SHA-256 {record.model_sha256}")
    print("\n".join(closing_lines(found.directory, record)))
    for place in found.deleted:
        print(f"deleted the sums of {names} in {place}")
    print(f"{run} still has a model with {names}; delete it: rm -r {shlex.quote(str(run))}")
