"""Write the tables and pictures of ``docs/results/`` that are made from runs.

    uv run python -m benchmarks.results                  (from the saved records, in seconds)
    uv run python -m benchmarks.results write NAME...    (the same for some studies)
    uv run python -m benchmarks.results run NAME...      (run a study again: hours, see `studies`)

``univarfl sweep`` writes a study's runs to runs/results/NAME, so an interrupted study continues
where it stopped. Their records, without models, are saved in benchmarks/records/NAME.tar.xz. The
study's tables are on a page of docs/results between ``<!-- NAME -->`` and ``<!-- end -->``, its
pictures in docs/results/pictures. Environment variables name the directories of data sets that are
not in this project (PACS=DIRECTORY).
"""

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import matplotlib as mpl
import pandas as pd

from benchmarks.studies import STUDIES
from server_app.analysis.analyse import DIRECTORY, read_table
from server_app.analysis.singular_values import SingularValues
from server_app.config.labels import label_of
from server_app.report.analyses import Analyses
from server_app.report.charts.base import Figure
from server_app.report.charts.draw import STYLE, drawn
from server_app.report.charts.of_runs import charts
from server_app.report.summary import Summary
from server_app.report.write import markdown
from server_app.runs.records.reader import Run, read_runs
from tests.processes import UNIVARFL

HERE = Path(__file__).parent
RUNS, RECORDS = Path("runs", "results"), HERE / "records"
PAGES = HERE.parent / "docs" / "results"
PICTURES, END = PAGES / "pictures", "<!-- end -->"
TEXTS = ("run.json", "rounds.csv", "classes.csv")
LEAN = "watch.tensorboard=false"


def main() -> None:
    """Run the named studies if asked to, and write their tables and pictures."""
    command, *names = sys.argv[1:] or ["write"]
    if command not in ("write", "run") or not set(names) <= set(STUDIES):
        raise SystemExit(f"{__doc__}\nstudies: {', '.join(STUDIES)}")
    for name in names or STUDIES:
        if command == "run":
            run(name)
        if archive(name).exists():
            write(name)
    if archive("labels").exists() and archive("iid").exists():
        draw_singular_values()


def run(name: str) -> None:
    """Run and analyse the missing runs of a study, and save its records."""
    study, place = STUDIES[name], RUNS / name
    root = [f"data.root={os.environ[study.needs]}"] if study.needs else []
    for words in study.sweeps:
        overrides = [*words.split(), LEAN, f"output_dir={place}", *root]
        subprocess.run([UNIVARFL, "sweep", *overrides], check=True)
    if study.measures:
        only = [word for measure in study.measures for word in ("--only", measure)]
        subprocess.run([UNIVARFL, "analyse", place, *only], check=True)
    save(name)


def archive(name: str) -> Path:
    """Return the file of a study's saved records."""
    return RECORDS / f"{name}.tar.xz"


def save(name: str) -> None:
    """Save the records of a study's runs, without paths of this machine."""
    RECORDS.mkdir(exist_ok=True)
    with tarfile.open(archive(name), "w:xz") as tar:
        for found in read_runs(RUNS / name).runs:
            record = {key: value for key, value in found.record.items() if key != "overrides"}
            data = {key: value for key, value in found.config["data"].items() if key != "root"}
            record["config"] = {**found.config, "data": data, "output_dir": None}
            texts = {each: (found.directory / each).read_bytes() for each in TEXTS[1:]}
            texts[TEXTS[0]] = json.dumps(record).encode()
            for table in sorted((found.directory / DIRECTORY).glob("*.csv")):
                texts[f"{DIRECTORY}/{table.name}"] = table.read_bytes()
            for path, content in texts.items():
                entry = tarfile.TarInfo(f"{found.directory.name}/{path}")
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))


@contextmanager
def saved(*names: str) -> Iterator[list[Run]]:
    """Yield the runs of studies, read from their saved records."""
    with tempfile.TemporaryDirectory() as place:
        for name in names:
            with tarfile.open(archive(name)) as tar:
                tar.extractall(place, filter="data")
        yield read_runs(Path(place)).runs


def write(name: str) -> None:
    """Replace a study's tables on its page."""
    page = page_of(name)
    before, mark, rest = page.read_text().partition(f"<!-- {name} -->\n")
    _, _, after = rest.partition(END)
    with saved(name) as runs:
        summary = Summary(runs)
        analyses = Analyses(summary)
        draw(name, summary, analyses)
        tables = [
            *STUDIES[name].tables(summary),
            *analyses.tables().values(),
            *analyses.differences().values(),
        ]
    text = "\n\n".join(markdown(table) for table in tables if len(table))
    codes = ", ".join(sorted({run.code[:12] for run in summary.runs}))
    command = f"`python -m benchmarks.results run {name}`"
    source = f"{len(summary.runs)} runs of code {codes} ({command})."
    page.write_text(f"{before}{mark}\n{text}\n\n{source}\n\n{END}{after}")


def page_of(name: str) -> Path:
    """Return the page that has the place of a study's tables."""
    for page in sorted(PAGES.glob("*.md")):
        if f"<!-- {name} -->\n" in page.read_text():
            return page
    raise SystemExit(f"no page in {PAGES} has <!-- {name} -->")


def draw(name: str, summary: Summary, analyses: Analyses) -> None:
    """Save the pictures of a study."""
    PICTURES.mkdir(exist_ok=True)
    found = chain(charts(summary), analyses.charts())
    for chart in found if STUDIES[name].pictures else ():
        for begin in STUDIES[name].pictures:
            if chart.name.startswith(begin):
                picture(chart.figure, f"{name}-{begin}")


def picture(figure: Figure, name: str) -> None:
    """Save a chart as a picture of the documentation."""
    with mpl.rc_context(STYLE):
        drawn(figure).savefig(PICTURES / f"{name}.png", dpi=100)


def draw_singular_values() -> None:
    """Draw the classifiers' singular values, IID and not (UniVarFL, Fig. 1)."""
    tables: dict[str, pd.DataFrame] = {}
    with saved("labels", "iid") as runs:
        for run in runs:
            settings = run.config
            method, split = settings["method"]["name"], settings["partition"]["name"]
            table = read_table(SingularValues(), run)
            wanted = split == "iid" or (settings["alpha"], settings["rho"]) == (0.01, 1.0)
            if table is not None and wanted and method in ("fedavg", "univarfl"):
                label = f"{label_of('method', method)}, {'IID' if split == 'iid' else 'alpha 0.01'}"
                tables[label] = pd.concat([tables.get(label, table[:0]), table])
    for drawing in SingularValues().draw(dict(sorted(tables.items()))):
        whose = "global" if "global" in drawing.title else "clients"
        picture(drawing.figure, f"singular-values-{whose}")


if __name__ == "__main__":
    main()
