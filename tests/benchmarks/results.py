"""The tables and pictures of RESULTS.md that are made of runs.

    uv run python -m tests.benchmarks.results                  (from the saved records, in seconds)
    uv run python -m tests.benchmarks.results write NAME...    (the same, of some studies)
    uv run python -m tests.benchmarks.results run NAME...      (a study anew; hours, told below)

A study's runs go to runs/results/NAME, as ``univarfl sweep`` leaves them, so that it can be
interrupted. Their records, without models, are saved in tests/benchmarks/records/NAME.tar.xz. Its
tables stand in RESULTS.md between ``<!-- NAME -->`` and ``<!-- end -->``, its pictures in
tests/benchmarks/pictures. Data sets that are no part of this project are named by the environment
(PACS=DIRECTORY).
"""

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import matplotlib as mpl
import pandas as pd

from server_app.analysis.analyse import DIRECTORY, read_table
from server_app.analysis.singular_values import SingularValues
from server_app.composition import compose_experiment
from server_app.flattening import flat
from server_app.report.analyses import Analyses
from server_app.report.canvas import STYLE
from server_app.report.pictures import pictures
from server_app.report.records import Run, read_runs
from server_app.report.summary import BEST, Summary, mean_and_sd
from server_app.report.write import markdown
from tests.machines import UNIVARFL

HERE = Path(__file__).parent
RUNS, RECORDS, PICTURES = Path("runs", "results"), HERE / "records", HERE / "pictures"
PAGE, END = Path("RESULTS.md"), "<!-- end -->"
CHOSEN = (
    "method.",
    "batch_size",
    "strategy.",
    "optim.",
    "model.norm",
)  # what a study of defaults varies
TEXTS = ("run.json", "rounds.csv", "classes.csv")
SIX = "method=fedavg,fedprox,moon,freeze,feduv,univarfl"
LEAN = "watch.tensorboard=false"
PACS = "experiment=pacs data.image_size=32 batch_size=32"
SHORT_PACS = f"{PACS} rounds=15 local_epochs=4"
SMALL_PACS = f"{PACS} rounds=60 local_epochs=2 watch.models_every=10"
POOLED_PACS = f"{PACS} partition=dirichlet num_clients=10 rounds=20 local_epochs=2"
SMALL_DIGITS = "rounds=20 local_epochs=2"
SKEWED = "alpha=0.05 rounds=12 seed=0,1,2,3,4,5,6,7,8,9"
PARTS = (
    "method=univarfl method.energy_weight=0",
    "method=univarfl method.variance_weight=0",
)
MANY = "num_clients=50 partition=iid rounds=15 local_epochs=2"
NOISE = "strategy=dp_fixed strategy.noise_multiplier=0,0.1,0.3,1"
OTHER_SEEDS, GROUP_NORM = "seed=10,11", "model.norm=group"
CLIPPED = "method=univarfl method.energy_eps=1e-3 optim.max_gradient_norm=10"
WEIGHED = f"{SMALL_DIGITS} alpha=0.05 seed=10,11,12,13,14,15"
WEIGHTS = "method=univarfl method.variance_weight=2.5,10"
PAPERS_WEIGHT = "univarfl (variance_weight=2.5)"
EPSILONS = f"{SMALL_DIGITS} {OTHER_SEEDS} method=univarfl method.energy_eps=1e-3,0.03,0.1,0.3,1"
SMALL_RESNET = "model=resnet56 data.image_size=8 alpha=0.1 rounds=12"


def accuracies(summary: Summary) -> list[pd.DataFrame]:
    """Each method's accuracy, and its differences from FedAvg's on the same seeds."""
    settings = {setting for setting, _ in summary.counted}
    first = summary.glance() if len(settings) > 1 else summary.accuracies()
    return [first, summary.differences()]


def weighed(summary: Summary) -> list[pd.DataFrame]:
    """Validation accuracy, by which a weight is chosen, and the differences from the paper's."""
    judged = Summary([untested(run) for run in summary.runs])
    tables = judged.accuracies(), judged.differences(PAPERS_WEIGHT)
    return [table.drop(columns=BEST) for table in tables]


def untested(run: Run) -> Run:
    """A run that is judged by validation."""
    kept = {key: values for key, values in run.series.items() if key[0] != "test"}
    return replace(run, series=kept)


def validated(summary: Summary) -> list[pd.DataFrame]:
    """What settings are chosen by: the last round's validation accuracy, %."""
    rows = []
    usual = flat(compose_experiment([]).model_dump())
    for runs in summary.counted.values():
        told = [
            f"{key}={value}"
            for key, value in flat(runs[0].config).items()
            if key.startswith(CHOSEN) and value != usual.get(key)
        ]
        found = [run.series["validation", "accuracy"][run.config["rounds"]] for run in runs]
        mean = mean_and_sd(100 * pd.Series(found))
        rows.append({"setting": ", ".join(told) or "the defaults", "validation": mean})
    return [pd.DataFrame(rows).sort_values("setting", kind="stable")]


def spent(summary: Summary) -> list[pd.DataFrame]:
    """Accuracy, %, by how much noise, and the epsilon that it buys."""
    rows: dict[float, dict[str, str]] = {}
    for (_, method), runs in summary.counted.items():
        noise = runs[0].config["strategy"]["noise_multiplier"]
        privacy = runs[0].record["privacy"]
        told = privacy["epsilon"] if "why" in privacy else f"{privacy['epsilon']:.1f}"
        row = rows.setdefault(noise, {"noise multiplier": f"{noise:g}", "epsilon": told})
        row[method] = mean_and_sd(
            pd.Series([100 * run.record["results"]["test"]["accuracy"] for run in runs])
        )
    return [pd.DataFrame([rows[noise] for noise in sorted(rows)])]


@dataclass(frozen=True)
class Study:
    """Runs that are looked at together.

    Attributes:
        sweeps: each one's words.
        measures: of the analysis.
        needs: the variable that names its data set's directory.
        tables: what is shown of them.
        pictures: which of a report's are kept, by how their names begin.
    """

    sweeps: tuple[str, ...]
    measures: tuple[str, ...] = ()
    needs: str = ""
    tables: Callable[[Summary], list[pd.DataFrame]] = accuracies
    pictures: tuple[str, ...] = ()


STUDIES = {
    # Three hours on two cores.
    "pacs": Study(
        (
            f"{SMALL_PACS} {SIX} seed=0,1,2",
            f"{SMALL_PACS} method=fedavg,univarfl seed=3,4,5,6,7,8,9",
        ),
        ("singular_values", "spread", "drift", "features", "cost"),
        needs="PACS",
        pictures=(
            "accuracy",
            "spread-feature-uniformity-clients",
            "spread-probability-variance-clients",
            "drift-cosine",
            "features-by-domain-fedavg",
            "features-by-domain-univarfl",
        ),
    ),
    # Three quarters of an hour.
    "pacs-short": Study((f"{SHORT_PACS} {SIX} seed=0,1,2",), needs="PACS"),
    # Two hours.
    "pacs-labels": Study(
        (
            f"{POOLED_PACS} alpha=0.01,1.0 rho=0.1,0.5,1.0 {SIX} seed=0,1,2",
            f"{POOLED_PACS} alpha=1.0 rho=0.1 method=fedavg,univarfl,feduv seed=3,4,5,6,7,8,9",
        ),
        needs="PACS",
    ),
    # Half an hour.
    "labels": Study(
        (f"{SMALL_DIGITS} alpha=0.01,1.0 rho=0.1,0.5,1.0 {SIX} watch.models_every=5 seed=0,1,2",),
        ("singular_values",),
    ),
    # Half an hour.
    "seeds": Study(
        (f"{SKEWED} {SIX},scaffold", *(f"{SKEWED} {part}" for part in PARTS)),
        pictures=("accuracy",),
    ),
    # A minute.
    "iid": Study(
        (f"{SMALL_DIGITS} partition=iid method=fedavg,univarfl watch.models_every=5 seed=0,1,2",),
        ("singular_values",),
    ),
    # Ten minutes.
    "curvature": Study(
        (f"{SMALL_RESNET} method=fedavg,fedprox,moon,univarfl,fedalign seed=0",),
        ("curvature", "cost"),
    ),
    # A quarter of an hour.
    "sensitivity": Study(
        tuple(
            f"{SMALL_DIGITS} {OTHER_SEEDS} method=univarfl alpha=0.05 {one}"
            for one in (
                "method.energy_eps=1e-4,1e-3,1e-2,1e-1,1",
                "method.energy_weight=0.1,2",
                "method.variance_weight=0.5,10",
                "batch_size=16,64",
                "strategy.weighting=uniform",
            )
        ),
        tables=validated,
    ),
    # A quarter of an hour.
    "variance-weight": Study(
        (f"{WEIGHED} method=fedavg", f"{WEIGHED} {WEIGHTS}"),
        tables=weighed,
    ),
    # Five minutes.
    "group": Study(
        (
            f"{GROUP_NORM} {SMALL_DIGITS} {OTHER_SEEDS} method=fedavg",
            f"{GROUP_NORM} {EPSILONS}",
            f"{GROUP_NORM} {SMALL_DIGITS} {OTHER_SEEDS} {CLIPPED}",
            f"{SMALL_DIGITS} {OTHER_SEEDS} method=fedavg,univarfl",
        ),
        tables=validated,
    ),
    # Five minutes.
    "privacy": Study(
        (f"{GROUP_NORM} {MANY} method=fedavg,univarfl {NOISE} seed=0,1,2",),
        tables=spent,
    ),
}


def main() -> None:
    """Run what is asked for, and write."""
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
    """Run and analyse what is missing of a study, and save its records."""
    study, place = STUDIES[name], RUNS / name
    root = [f"data.root={os.environ[study.needs]}"] if study.needs else []
    for words in study.sweeps:
        said = [*words.split(), LEAN, f"output_dir={place}", *root]
        subprocess.run([UNIVARFL, "sweep", *said], check=True)
    if study.measures:
        only = [word for measure in study.measures for word in ("--only", measure)]
        subprocess.run([UNIVARFL, "analyse", place, *only], check=True)
    save(name)


def archive(name: str) -> Path:
    """Where a study's records are saved."""
    return RECORDS / f"{name}.tar.xz"


def save(name: str) -> None:
    """Save the records of a study's runs, without the paths of the machine that ran them."""
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
    """The runs of studies, read from their saved records."""
    with tempfile.TemporaryDirectory() as place:
        for name in names:
            with tarfile.open(archive(name)) as tar:
                tar.extractall(place, filter="data")
        yield read_runs(Path(place)).runs


def write(name: str) -> None:
    """Put a study's tables into their place."""
    before, mark, rest = PAGE.read_text().partition(f"<!-- {name} -->\n")
    if not mark:
        raise SystemExit(f"{PAGE} has no <!-- {name} -->")
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
    said = "\n\n".join(markdown(table) for table in tables if len(table))
    codes = ", ".join(sorted({run.code[:12] for run in summary.runs}))
    command = f"`python -m tests.benchmarks.results run {name}`"
    told = f"{len(summary.runs)} runs of code {codes} ({command})."
    PAGE.write_text(f"{before}{mark}\n{said}\n\n{told}\n\n{END}{after}")


def draw(name: str, summary: Summary, analyses: Analyses) -> None:
    """Keep a study's pictures."""
    PICTURES.mkdir(exist_ok=True)
    with mpl.rc_context(STYLE):
        found = chain(pictures(summary), analyses.pictures())
        for picture in found if STUDIES[name].pictures else ():
            for begin in STUDIES[name].pictures:
                if picture.name.startswith(begin):
                    picture.figure.savefig(PICTURES / f"{name}-{begin}.png", dpi=100)


def draw_singular_values() -> None:
    """FedAvg's and UniVarFL's classifiers, IID and not, in one picture (UniVarFL, Fig. 1)."""
    tables: dict[str, pd.DataFrame] = {}
    with saved("labels", "iid") as runs:
        for run in runs:
            settings = run.config
            method, split = settings["method"]["name"], settings["partition"]["name"]
            table = read_table(SingularValues(), run)
            wanted = split == "iid" or (settings["alpha"], settings["rho"]) == (0.01, 1.0)
            if table is not None and wanted and method in ("fedavg", "univarfl"):
                label = f"{method}, {'IID' if split == 'iid' else 'alpha 0.01'}"
                tables[label] = pd.concat([tables.get(label, table[:0]), table])
    with mpl.rc_context(STYLE):
        for drawing in SingularValues().draw(dict(sorted(tables.items()))):
            whose = "global" if "global" in drawing.title else "clients"
            drawing.figure.savefig(PICTURES / f"singular-values-{whose}.png", dpi=100)


if __name__ == "__main__":
    main()
