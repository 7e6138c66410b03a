"""CSV files that a spreadsheet cannot take for formulas."""

import csv
from pathlib import Path

import pandas as pd
import pytest

from server_app.config.composition import compose_experiment
from server_app.runs.records.csv_files import rows_as_csv
from tests.conftest import SMALL, Train
from tests.task.data import making
from univarfl.inference.predict import predict
from univarfl.records.csv_tables import frame_as_csv, read_frame, read_rows
from univarfl.report.split.report import report_split
from univarfl.report.write import write_tables
from univarfl.sweeps.cells import cells_of
from univarfl.sweeps.ledger import FAILED, SweepTable

FORMULAS = ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "+12.0 (-3 to +4)"]
NAMES = ["cat", "'quoted'", "'", "''", "a=b", " =1", "NA", "", "-1", "+2.5", "1e-3", "a,b", 'a"b']
STARTS = ("=", "+", "-", "@", "\t", "\r")


def is_safe(cell: str) -> bool:
    """Whether a spreadsheet shows the cell as it is."""
    try:
        float(cell)
    except ValueError:
        return not cell.startswith(STARTS)
    return True


@pytest.mark.parametrize("text", [*FORMULAS, *NAMES, *(f"'{text}" for text in FORMULAS)])
def test_no_cell_is_a_formula_and_every_name_is_read_back(tmp_path: Path, text: str) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(rows_as_csv([[text, -1.5, 3]]))
    with path.open(newline="") as file:
        ((cell, number, count),) = csv.reader(file)
    assert is_safe(cell)
    assert (number, count) == ("-1.5", "3")
    assert list(read_rows(path)) == [[text, "-1.5", "3"]]


def test_a_table_of_pandas_is_the_same_after_reading(tmp_path: Path) -> None:
    frame = pd.DataFrame({"=name": FORMULAS, "value": [-0.5] * 7, "images": range(7)})
    path = tmp_path / "table.csv"
    path.write_bytes(frame_as_csv(frame))
    with path.open(newline="") as file:
        assert all(is_safe(cell) for row in csv.reader(file) for cell in row)
    pd.testing.assert_frame_equal(read_frame(path), frame)


def every_cell(place: Path) -> list[tuple[Path, str]]:
    """Every cell of every CSV file below a directory."""
    found = []
    for path in place.rglob("*.csv"):
        with path.open(newline="", encoding="utf-8") as file:
            found += [(path, cell) for row in csv.reader(file) for cell in row]
    return found


def test_a_class_named_like_a_formula_is_safe_in_every_file(train: Train, tmp_path: Path) -> None:
    formula = "=cmd|calc"
    root = making.tree(tmp_path / "images", [formula, "-2+3"], 12)
    words = ["data=folder", f"data.root={root}", "num_clients=2", "partition.min_images=3"]
    words += ["data.image_size=8", "model=resnet56", "rounds=1"]
    run = train(*words)
    report_split(compose_experiment([*SMALL, *words]), tmp_path / "split")
    predict(run, [str(root)], tmp_path / "predicted.csv", "cpu")
    cells = cells_of(["seed=0"])
    SweepTable(tmp_path / "ledger.csv", cells).note(cells[0], FAILED, formula)
    write_tables(tmp_path / "tables", {"Runs": pd.DataFrame({formula: [formula]})})
    found = every_cell(tmp_path)
    names = {path.name for path, _ in found}
    assert names >= {"split.csv", "predicted.csv", "ledger.csv", "clients.csv", "runs.csv"}
    assert [(path, cell) for path, cell in found if not is_safe(cell)] == []
    read = {row[2] for row in read_rows(tmp_path / "split" / "split.csv")}
    assert read == {"class", formula, "-2+3"}
    assert f"p_{formula}" in next(read_rows(tmp_path / "predicted.csv"))
