"""The tables of RESULTS.md that are made of runs: runs what is missing, and writes them in.

    uv run python -m tests.benchmarks.results [NAME...]   (all; hours, told below)

Runs go to runs/results/NAME, as ``univarfl sweep`` leaves them, so that it can be interrupted, and
a table is of what is there. Data sets that are no part of this project are named by the environment
(PACS). A table stands between ``<!-- NAME -->`` and ``<!-- end -->``.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from server_app.report.analyses import Analyses
from server_app.report.records import read_runs
from server_app.report.summary import Summary
from server_app.report.write import markdown
from tests.machines import UNIVARFL

PLACE, PAGE, END = Path("runs", "results"), Path("RESULTS.md"), "<!-- end -->"
SIX = "method=fedavg,fedprox,moon,freeze,feduv,univarfl"
LEAN = "watch.tensorboard=false evaluate_every=5 seed=0,1,2"


@dataclass(frozen=True)
class Study:
    """Runs that are looked at together.

    Attributes:
        words: of the sweep.
        measures: of the analysis.
        needs: the variable that names its data set's directory.
    """

    words: str
    measures: tuple[str, ...] = ()
    needs: str = ""


STUDIES = {
    # Two hours on two cores.
    "pacs": Study(
        f"experiment=pacs data.image_size=32 rounds=25 local_epochs=5 {SIX} {LEAN}", needs="PACS"
    ),
    # Half an hour.
    "labels": Study(f"alpha=0.01,1.0 rho=0.1,0.5,1.0 rounds=25 local_epochs=3 {SIX} {LEAN}"),
    # Twenty minutes.
    "curvature": Study(
        "model=resnet56 data.image_size=8 alpha=0.1 rounds=20 "
        f"method=fedavg,fedprox,moon,univarfl,fedalign {LEAN}",
        ("curvature", "cost"),
    ),
}


def main() -> None:
    """Run and write."""
    names = sys.argv[1:] or list(STUDIES)
    for name in names:
        study, place = STUDIES[name], PLACE / name
        words = [*study.words.split(), f"output_dir={place}"]
        if study.needs:
            words.append(f"data.root={os.environ[study.needs]}")
        subprocess.run([UNIVARFL, "sweep", *words], check=True)
        if study.measures:
            only = [word for measure in study.measures for word in ("--only", measure)]
            subprocess.run([UNIVARFL, "analyse", place, *only], check=True)
        write_in(name, tables_of(place))


def tables_of(place: Path) -> str:
    """The tables of the runs in a directory, as Markdown."""
    summary = Summary(read_runs(place).runs)
    tables = [summary.glance(), summary.differences(), *Analyses(summary.counted).tables().values()]
    return "\n\n".join(markdown(table) for table in tables if len(table))


def write_in(name: str, text: str) -> None:
    """Put a study's tables into their place."""
    before, mark, rest = PAGE.read_text().partition(f"<!-- {name} -->\n")
    if not mark:
        raise SystemExit(f"{PAGE} has no <!-- {name} -->")
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{mark}\n{text}\n\n{END}{after}")


if __name__ == "__main__":
    main()
