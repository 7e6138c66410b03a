"""The report as it lies on disk."""

import json
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest

from task.errors import ConfigError, RunError
from tests.server_app.runs.recorded import change, record
from univarfl.report.write import markdown, report
from univarfl.sweeps.ledger import SWEEPS


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("runs")
    for method, gain in (("fedavg", 0.0), ("univarfl", 0.1)):
        for alpha in (0.05, 1.0):
            for seed in (0, 1):
                accuracy = 0.4 + gain + 0.1 * alpha + 0.02 * seed
                record(
                    place,
                    f"{method}-{alpha}-{seed}",
                    [f"method={method}", f"alpha={alpha}", f"seed={seed}"],
                    [0.1, accuracy / 2, accuracy],
                )
    (place / "broken").mkdir()
    (place / "broken" / "run.json").write_text("{")
    (place / SWEEPS).mkdir()
    (place / SWEEPS / "20260101.csv").write_text(
        "cell,status,reason,run\nmethod=krum,refused,method=krum: choose one of ...,\n"
    )
    report(place, place / "report", baseline="fedavg", pictures=True)
    return place


@pytest.mark.parametrize("name", ["tables", "pictures"])
def test_files_behind_a_link_are_neither_deleted_nor_replaced(tmp_path: Path, name: str) -> None:
    record(tmp_path / "runs", "a", [], [0.1, 0.5])
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "accuracy.csv").write_text("my own")
    report(tmp_path / "runs", to := tmp_path / "runs" / "report")
    if (to / name).exists():
        shutil.rmtree(to / name)
    (to / name).symlink_to(tmp_path / "mine")
    with pytest.raises(ConfigError, match="must be writable: is a symbolic link; give the path"):
        report(tmp_path / "runs", to, pictures=True)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["accuracy.csv"]
    assert (tmp_path / "mine" / "accuracy.csv").read_text() == "my own"


def test_a_picture_replaces_a_link_and_not_the_file_behind_it(tmp_path: Path) -> None:
    record(tmp_path / "runs", "a", [], [0.1, 0.5])
    pictures = tmp_path / "report" / "pictures"
    report(tmp_path / "runs", tmp_path / "report", pictures=True)
    (mine := tmp_path / "mine").write_text("my own")
    picture = sorted(pictures.glob("*.png"))[0]
    picture.unlink()
    picture.symlink_to(mine)
    (tmp_path / "report" / "index.html").unlink()
    report(tmp_path / "runs", tmp_path / "report", pictures=True)
    assert mine.read_text() == "my own"
    assert not picture.is_symlink()


def test_the_text_of_a_record_cannot_control_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = record(tmp_path, "a", [], [0.1, 0.5])
    settings = json.loads((run / "run.json").read_text())["config"]
    method = {**settings["method"], "name": "\x1b]0;mine\x07\x1b[2Jfedavg"}
    change(run, config={**settings, "method": method})
    report(tmp_path, tmp_path / "report")
    shown = capsys.readouterr().out
    assert "?]0;mine??[2Jfedavg" in shown
    assert "\x1b" not in shown


def test_tables_come_as_csv_markdown_and_latex(runs: Path) -> None:
    tables = runs / "report" / "tables"
    frame = pd.read_csv(tables / "accuracy.csv")
    assert frame[["alpha", "method", "seeds"]].values.tolist() == [
        [0.05, "FedAvg", 2], [0.05, "UniVarFL", 2], [1.0, "FedAvg", 2], [1.0, "UniVarFL", 2]
    ]  # fmt: skip
    assert frame["last round"][0] == "41.5 ± 1.4"
    assert pd.read_csv(tables / "tidy.csv")["mean"].dtype == float
    names = {path.stem for path in tables.iterdir()} - {"tidy"}
    assert names == {
        "last_round", "accuracy", "other_metrics", "paired_differences", "rounds_to_a_target",
        "runs",
    }  # fmt: skip
    for name in names:
        assert {path.suffix for path in tables.glob(f"{name}.*")} == {".csv", ".md", ".tex"}
    latex = (tables / "accuracy.tex").read_text()
    assert r"\toprule" in latex
    assert r"41.5 $\pm$ 1.4" in latex
    for path in tables.glob("*.tex"):
        for mark in "_%":
            assert mark not in path.read_text().replace(f"\\{mark}", ""), path


def test_a_bar_in_a_name_is_no_column_of_markdown() -> None:
    table = pd.DataFrame({"class": ["a|b", "c"], "images": [1, 2]})
    assert [line.replace(r"\|", "").count("|") for line in markdown(table).splitlines()] == [3] * 4


def test_pictures_come_as_png_and_svg(runs: Path) -> None:
    pictures = runs / "report" / "pictures"
    stems = {path.stem for path in pictures.glob("*.png")}
    assert stems == {path.stem for path in pictures.glob("*.svg")}
    kinds = {stem.split("-")[0] for stem in stems}
    assert kinds == {"accuracy", "loss", "time", "bars", "recall", "alpha"}
    assert "accuracy-alpha-0.05" in stems


def test_the_page_holds_all_of_it_and_fetches_nothing(runs: Path) -> None:
    page = (runs / "report" / "index.html").read_text()
    assert re.findall(r"<(?:img|script|link)[^>]*(?:src|href)=", page) == []
    anchors = set(re.findall(r'href="#([^"]+)"', page))
    assert anchors <= set(re.findall(r'id="([^"]+)"', page))
    for text in ("41.5 ± 1.4", "broken: run.json is cut short", "cell method=krum: refused"):
        assert text in page
    for run in runs.glob("*-*"):
        assert run.name in page


def test_one_run_is_a_report_too(tmp_path: Path) -> None:
    run = record(tmp_path, "only", [], [0.1, 0.5])
    report(run, tmp_path / "report")
    assert "1 completed run," in (tmp_path / "report" / "index.html").read_text()
    assert not (tmp_path / "report" / "tables" / "paired_differences.csv").exists()


def test_classes_may_have_any_name_and_equal_records_give_equal_pictures(tmp_path: Path) -> None:
    run = record(tmp_path, "only", [], [0.1, 0.5])
    text = (run / "run.json").read_text()
    for old, new in (("digit 3", "a$b^c$"), ("digit 4", "$x"), ("digit 5", "long " * 20)):
        text = text.replace(old, new)
    (run / "run.json").write_text(text)
    for place in ("one", "two"):
        report(run, tmp_path / place, pictures=True)
    (one,), (two,) = ((tmp_path / at / "pictures").glob("recall*.svg") for at in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()


def test_what_a_run_is_called_cannot_write_the_page(tmp_path: Path) -> None:
    run = record(tmp_path, "only", [], [0.1, 0.5])
    text = (run / "run.json").read_text()
    (run / "run.json").write_text(text.replace('"univarfl"', '"<script>alert(1)"'))
    record(tmp_path, "other", [], [0.1, 0.5])
    failed = tmp_path / "failed"
    failed.mkdir()
    (failed / "run.json").write_text(
        text.replace('"completed"', '"failed"')
        .replace('"reason": ""', '"reason": "<script>"')
        .replace('"seed": 0', '"seed": 5')
    )
    report(tmp_path, tmp_path / "report")
    page = (tmp_path / "report" / "index.html").read_text()
    assert "<script>alert" not in page
    assert page.count("&lt;script&gt;") > 3


def test_a_directory_without_results_is_an_error(tmp_path: Path) -> None:
    run = record(tmp_path, "only", [], [0.1, 0.5])
    (run / "rounds.csv").unlink()
    with pytest.raises(RunError, match="holds no completed run"):
        report(tmp_path, tmp_path / "report")


def test_a_baseline_that_was_not_run_is_refused(tmp_path: Path) -> None:
    record(tmp_path, "only", [], [0.1, 0.5])
    with pytest.raises(ConfigError, match="--baseline=fedavg: choose one of UniVarFL"):
        report(tmp_path, tmp_path / "report", baseline="fedavg")


@pytest.mark.slow
def test_many_classes_long_names_and_a_swept_rho(tmp_path: Path) -> None:
    """What CIFAR-100 in a sweep over rho gives: no room for a number in every square."""
    name = "a very long name of a class, as nobody would give one"
    classes = [f"{name} {place}" for place in range(30)]
    for rho in (0.1, 0.5):
        record(tmp_path, f"rho-{rho}", [f"rho={rho}"], [0.1, rho], classes=classes)
    report(tmp_path, tmp_path / "report", [0.3], pictures=True)
    report(tmp_path, tmp_path / "report", pictures=True)  # writes over its own
    stems = {path.stem for path in (tmp_path / "report" / "pictures").glob("*.png")}
    assert {stem.split("-")[0] for stem in stems} >= {"rho", "recall"}
    page = (tmp_path / "report" / "index.html").read_text()
    assert "Accuracy against rho" in page


def test_a_report_that_cannot_be_written_says_where(runs: Path) -> None:
    with pytest.raises(ConfigError, match=r"--to=/proc/report: must be writable: "):
        report(runs, Path("/proc/report"))


def test_a_tuned_setting_that_no_run_has_is_refused(tmp_path: Path) -> None:
    record(tmp_path, "a", [], [0.1, 0.5])
    with pytest.raises(ConfigError, match=r"--tuned=optim\.rate: must be a setting of the runs"):
        report(tmp_path, tmp_path / "report", tuned=["optim.rate"])
    report(tmp_path, tmp_path / "report", tuned=["optim.lr"])
    table = (tmp_path / "report" / "tables" / "tuned_settings.csv").read_text()
    assert table.splitlines() == ["method,tuned", "UniVarFL,optim.lr=0.01"]
