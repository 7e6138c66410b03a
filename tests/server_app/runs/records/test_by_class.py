"""The files of metrics by class: read back, damaged, and in reports."""

import csv
from pathlib import Path

import pytest

from server_app.runs.records.by_class import CLASS_METRICS, CONFUSION, save_by_class
from server_app.runs.records.tables import RecordError
from task.training.one_vs_rest import ClassMetrics, OneVsRest
from tests.server_app.runs.recorded import record
from univarfl.records.reader import read_runs
from univarfl.records.scores import read_by_class
from univarfl.report.breakdown.by_class import ByClass
from univarfl.report.section import filled_tables
from univarfl.report.summary import Summary

NAMES = ["=cat", "NA", "a,b"]  # a formula, a missing value and two cells to careless readers
FOUND = OneVsRest(
    [
        ClassMetrics(2, 0.5, 1 / 3, 0.25, 0.5),
        ClassMetrics(0, None, 1.0, None, None),
        ClassMetrics(3, 1 / 3, 0.5, 0.1, 0.7),
    ],
    [[1, 0, 1], [0, 0, 0], [2, 0, 1]],
)


def test_they_read_back(tmp_path: Path) -> None:
    assert read_by_class(tmp_path, NAMES) is None
    save_by_class(tmp_path, NAMES, FOUND)
    assert read_by_class(tmp_path, NAMES) == FOUND
    with (tmp_path / CONFUSION).open(newline="") as file:
        assert next(csv.reader(file)) == ["true class", "'=cat", "NA", "a,b"]


@pytest.mark.parametrize(
    ("name", "before", "after", "reason"),
    [
        (CLASS_METRICS, "0.25", "1.25", "cannot be 1.25"),
        (CLASS_METRICS, "0.25", "much", "'much' is not a number"),
        (CLASS_METRICS, "auroc", "auc", "does not have the columns auroc"),
        (CLASS_METRICS, "NA,0", "NA,1", "differ in the number of images"),
        (CONFUSION, "2,0,1", "2,0", "cut short"),
        (CONFUSION, "2,0,1", "2,0,-1", "'-1' is not a whole number"),
        (CONFUSION, "\nNA", "\ndog", "other classes"),
    ],
)
def test_a_damaged_file_is_named(
    tmp_path: Path, name: str, before: str, after: str, reason: str
) -> None:
    save_by_class(tmp_path, NAMES, FOUND)
    text = (tmp_path / name).read_text()
    assert before in text
    (tmp_path / name).write_text(text.replace(before, after))
    with pytest.raises(RecordError, match=reason):
        read_by_class(tmp_path, NAMES)


def test_a_missing_half_is_named(tmp_path: Path) -> None:
    save_by_class(tmp_path, NAMES, FOUND)
    (tmp_path / CONFUSION).unlink()
    with pytest.raises(RecordError, match=r"confusion\.csv: no such file"):
        read_by_class(tmp_path, NAMES)


def test_a_report_has_them_of_the_runs_that_do(tmp_path: Path) -> None:
    words = ["method=fedavg"]
    for name, extra in (("a", []), ("b", ["seed=1"]), ("old", ["alpha=1"])):
        record(tmp_path, name, [*words, *extra], [0.1, 0.5], classes=NAMES)
    for name in "ab":
        save_by_class(tmp_path / name, NAMES, FOUND)
    tables = filled_tables(ByClass(Summary(read_runs(tmp_path).runs)).sections())
    metrics = tables["Metrics by class"]
    assert metrics["class"].tolist() == NAMES
    assert metrics["sensitivity"].tolist() == ["0.500 ± 0.000", "", "0.333 ± 0.000"]
    assert metrics["alpha"].tolist() == ["0.3"] * 3
    matrix = tables["Confusion matrix"]
    assert matrix["as =cat"].tolist() == ["2", "0", "4"]
    (tmp_path / "b" / CONFUSION).write_text("")
    by_class = ByClass(Summary(read_runs(tmp_path).runs))
    (problem,) = by_class.problems
    assert problem.startswith("b: confusion.csv is cut short")
    assert filled_tables(by_class.sections())["Confusion matrix"]["as =cat"].tolist() == [
        "1",
        "0",
        "2",
    ]


def test_a_run_from_before_has_none(tmp_path: Path) -> None:
    record(tmp_path, "old", [], [0.1, 0.5])
    by_class = ByClass(Summary(read_runs(tmp_path).runs))
    assert filled_tables(by_class.sections()) == {}
