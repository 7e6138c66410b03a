"""``univarfl compare``: two runs side by side."""

from pathlib import Path
from typing import Annotated

import typer

from univarfl.cli.arguments import find

COMPARE_HELP = """Compare two runs: settings, accuracy, curves, paired test.

\b
  univarfl compare runs/RUN runs/OTHER
  univarfl compare runs/RUN latest --to picture.png
\b
Each run is taken with the completed runs in the same directory that differ from it only in the
seed. Accuracy is then the mean ± standard deviation over seeds. The difference is computed over the
seeds that both have. With two such seeds or more, it has a 95 % interval and the p-value of a
paired t-test. If both runs have a virtual clock, the command also compares the simulated seconds
and the megabytes that each one needs to reach the lower of the two accuracies.
\b
It writes a picture of the curves. 'univarfl report' compares more than two.
"""

Named = Annotated[Path, typer.Argument(metavar="RUN", show_default=False, callback=find)]
Other = Annotated[Path, typer.Argument(metavar="OTHER", show_default=False, callback=find)]


def compare(
    first: Named,
    second: Other,
    to: Annotated[Path, typer.Option(metavar="FILE", help="The picture to write.")] = Path(
        "comparison.png"
    ),
) -> None:
    """Compare two runs."""
    from tabulate import tabulate  # noqa: PLC0415

    from task.errors import ConfigError, system_reason  # noqa: PLC0415
    from univarfl.report.comparison import compare as compare_runs  # noqa: PLC0415
    from univarfl.terminal.streams import print_plain  # noqa: PLC0415

    found = compare_runs(first, second)
    seeds = [
        ", ".join(str(run.config["seed"]) for run in runs) for runs in (found.first, found.second)
    ]
    rows = [*found.settings(), *found.accuracies(), ("seeds", seeds[0], seeds[1])]
    headings = ("", first.name, second.name)
    print_plain(tabulate(rows, headings, "simple", disable_numparse=True))
    print_plain("\n" + "\n".join([*found.paired_tests(), *found.times(), *found.warnings()]))
    try:
        found.draw(to)
    except OSError as error:
        raise ConfigError("--to", to, f"must be writable: {system_reason(error)}") from None
    print(f"curves  {to}")
