"""Write the tables and pictures of ``docs/results/`` that are made from runs.

    uv run python -m benchmarks.results                  (from the saved records, in seconds)
    uv run python -m benchmarks.results write NAME...    (the same for some studies)
    uv run python -m benchmarks.results run NAME...      (run a study again, see `studies`)
    uv run python -m benchmarks.results complete NAME... (run what the saved records lack)

``univarfl sweep`` writes a study's runs to runs/results/NAME, so an interrupted study continues
where it stopped. ``complete`` keeps saved records of the same settings, whichever code made them,
and saves what is finished when it is interrupted. A long study is run in parts in this way. The
records, without models, are saved in benchmarks/records/NAME.tar.xz. The study's tables are on a
page of docs/results between ``<!-- NAME -->`` and ``<!-- end -->``, its pictures in
docs/results/pictures. Environment variables name the directories of data sets that are not in this
project (PACS=DIRECTORY, MNIST=DIRECTORY, TIN10=DIRECTORY).
"""

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import matplotlib as mpl
import pandas as pd

from benchmarks.studies import STUDIES
from server_app.runs.records.client_scores import CLIENT_SCORES
from server_app.runs.records.tables import CLIENTS
from task.machine.files import draft_of
from tests.processes import UNIVARFL
from univarfl.analysis.analyse import DIRECTORY, read_table
from univarfl.analysis.singular_values import SingularValues
from univarfl.records.differences import settings_hash, without_root
from univarfl.records.labels import label_of
from univarfl.records.reader import Run, read_runs
from univarfl.report.analyses import Analyses
from univarfl.report.breakdown.by_client import ByClient
from univarfl.report.charts.base import Figure
from univarfl.report.charts.draw import STYLE, drawn
from univarfl.report.charts.of_runs import charts
from univarfl.report.section import Section
from univarfl.report.summary import Summary
from univarfl.report.write import markdown
from univarfl.sweeps.benchmark.run import records_in
from univarfl.sweeps.cells import Cell, cells_of
from univarfl.sweeps.schedule import Sweep

HERE = Path(__file__).parent
RUNS, RECORDS = Path("runs", "results"), HERE / "records"
PAGES = HERE.parent / "docs" / "results"
PICTURES, END = PAGES / "pictures", "<!-- end -->"
TEXTS = ("run.json", "rounds.csv", "classes.csv")
LEAN = "watch.tensorboard=false"


def main() -> None:
    """Run the named studies if asked to, and write their tables and pictures."""
    command, *names = sys.argv[1:] or ["write"]
    ways = {"run": run, "complete": complete}
    if command not in ("write", *ways) or not set(names) <= set(STUDIES):
        raise SystemExit(f"{__doc__}\nstudies: {', '.join(STUDIES)}")
    for name in names or STUDIES:
        if command in ways:
            ways[command](name)
        if archive(name).exists():
            write(name)
    if archive("labels").exists() and archive("iid").exists():
        draw_singular_values()


def run(name: str) -> None:
    """Run and analyse the missing runs of a study, and save its records."""
    study, place = STUDIES[name], RUNS / name
    for words in study.sweeps:
        subprocess.run([UNIVARFL, "sweep", *overrides_of(name, words)], check=True)
    if study.measures:
        only = [word for measure in study.measures for word in ("--only", measure)]
        subprocess.run([UNIVARFL, "analyse", place, *only], check=True)
    save(name, read_runs(place).runs)


def complete(name: str) -> None:
    """Run the cells of a study that have no saved record, and add their records.

    Raises:
        SystemExit: the study has measures, which need the models of its runs.
    """
    if STUDIES[name].measures:
        raise SystemExit(f"{name} is analysed after its runs, and models are not saved: use run")
    with saved(*[name] if archive(name).exists() else []) as kept:
        cells = missing_cells(name, kept)
        print(f"{name}: {len(kept)} saved records, {len(cells)} runs to go")
        try:
            if cells:
                Sweep(cells).run()
        finally:
            new = records_in(RUNS / name).runs
            found = {settings_hash(run.config) for run in new}
            every = [*(run for run in kept if settings_hash(run.config) not in found), *new]
            if every:
                save(name, every)


def missing_cells(name: str, kept: Iterable[Run]) -> list[Cell]:
    """Return the cells of a study whose settings none of the runs has."""
    found = {settings_hash(run.config) for run in kept}
    every = (each for words in STUDIES[name].sweeps for each in cells_of(overrides_of(name, words)))
    return [
        cell
        for cell in every
        if cell.experiment is None or settings_hash(cell.experiment.model_dump()) not in found
    ]


def overrides_of(name: str, words: str) -> list[str]:
    """Return the words of a study's sweep, with its places on this machine.

    Raises:
        SystemExit: the environment variable with the data set's directory is not set.
    """
    needs = STUDIES[name].needs
    if needs and not os.environ.get(needs):
        raise SystemExit(f"{name} needs {needs}=DIRECTORY")
    root = [f"data.root={os.environ[needs]}"] if needs else []
    return [*words.split(), LEAN, f"output_dir={RUNS / name}", *root]


def archive(name: str) -> Path:
    """Return the file of a study's saved records."""
    return RECORDS / f"{name}.tar.xz"


def save(name: str, runs: Iterable[Run]) -> None:
    """Save the records of a study's runs, without paths of this machine."""
    RECORDS.mkdir(exist_ok=True)
    with draft_of(archive(name)) as draft, tarfile.open(draft, "w:xz") as tar:
        for found in sorted(runs, key=lambda run: run.directory.name):
            record = found.record.without("overrides")
            data = without_root(found.config["data"])
            record = record.changed(config={**found.config, "data": data, "output_dir": None})
            texts = {each: (found.directory / each).read_bytes() for each in TEXTS[1:]}
            texts[TEXTS[0]] = json.dumps(record.entries()).encode()
            optional = [CLIENT_SCORES, CLIENTS] if keeps_clients(name) else [CLIENT_SCORES]
            tables = [found.directory / each for each in optional]
            tables += (found.directory / DIRECTORY).glob("*.csv")
            for table in sorted(path for path in tables if path.exists()):
                texts[str(table.relative_to(found.directory))] = table.read_bytes()
            for path, content in texts.items():
                entry = tarfile.TarInfo(f"{found.directory.name}/{path}")
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))


def keeps_clients(name: str) -> bool:
    """Return whether records are saved with ``clients.csv``; those of the benchmark are not."""
    return name in STUDIES and STUDIES[name].keeps_clients


@contextmanager
def saved(*names: str) -> Iterator[list[Run]]:
    """Yield the runs of studies, read from their saved records."""
    with tempfile.TemporaryDirectory() as place:
        for name in names:
            with tarfile.open(archive(name)) as tar:
                tar.extractall(place, filter="data")
        yield read_runs(Path(place)).runs if names else []


def write(name: str) -> None:
    """Replace a study's tables on its page."""
    with saved(name) as runs, saved(*STUDIES[name].beside) as others:
        methods = {run.config["method"]["name"] for run in runs}
        beside = [run for run in others if run.config["method"]["name"] in methods]
        summary = Summary([*runs, *beside])
        analysed = Analyses(Summary(runs)).sections(None)
        draw(name, summary, analysed)
        tables = [*STUDIES[name].tables(summary), *(each.table for each in analysed)]
    text = "\n\n".join(markdown(table) for table in tables if len(table))
    codes = ", ".join(sorted({run.record.code[:12] for run in summary.runs}))
    command = f"`python -m benchmarks.results run {name}`"
    source = f"{len(summary.runs)} runs of code {codes} ({command})."
    replace_part(name, f"{text}\n\n{source}")


def replace_part(name: str, text: str) -> None:
    """Replace what a page of results has between the marks of a study."""
    page = page_of(name)
    before, mark, rest = page.read_text().partition(f"<!-- {name} -->\n")
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{mark}\n{text}\n\n{END}{after}")


def page_of(name: str) -> Path:
    """Return the page that has the place of a study's tables."""
    for page in sorted(PAGES.glob("*.md")):
        if f"<!-- {name} -->\n" in page.read_text():
            return page
    raise SystemExit(f"no page in {PAGES} has <!-- {name} -->")


def draw(name: str, summary: Summary, analysed: Iterable[Section]) -> None:
    """Save the pictures of a study."""
    PICTURES.mkdir(exist_ok=True)
    further = chain.from_iterable(each.charts for each in analysed)
    found = chain(charts(summary), ByClient(summary).charts(), further)
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
        kind = "" if "shares" in drawing.title else "-values"
        picture(drawing.figure, f"singular-values-{whose}{kind}")


if __name__ == "__main__":
    main()
