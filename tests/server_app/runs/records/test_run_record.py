"""The record of a run: what is written is read, and what another version wrote is read too."""

import ast
import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pydantic import ValidationError

from server_app.runs.records.by_class import CLASS_METRICS, CONFUSION, save_by_class
from server_app.runs.records.client_scores import CLIENT_SCORES, ClientScore, save_client_scores
from server_app.runs.records.compaction import compact
from server_app.runs.records.run_record import (
    RunRecord,
    read_entries,
    read_record,
    write_record,
)
from server_app.runs.records.tables import CLASSES, CLIENTS, PARQUET, ROUNDS, RecordError
from tests.server_app.runs.recorded import append_rows, change, record
from tests.server_app.runs.records.test_by_class import FOUND, NAMES
from univarfl.records.clients import read_clients
from univarfl.records.reader import read_run, read_runs
from univarfl.records.scores import read_by_class, read_client_scores
from univarfl.report.dashboard.details import details_of
from univarfl.reporting import write_report
from univarfl.sweeps.benchmark.run import unpack_records

ROOT = Path(__file__).parents[4]
SAVED = sorted((ROOT / "benchmarks" / "records").glob("*.tar.xz"))
# Only these read entries by name: the schema, and the migration that comes before it.
BY_NAME = {ROOT / "server_app/runs/records" / name for name in ("run_record.py", "older.py")}
HOLDERS = ("record", "recorded", "summary", "entries", "run_json", "read_entries")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = record(tmp_path_factory.mktemp("sound"), "run", [], [0.1, 0.5, 0.6], classes=NAMES)
    save_by_class(run, NAMES, FOUND)
    append_rows(run / CLIENTS, [[1, 0, "a", "ok", "", 5, 1.5, "cpu", 0.1, "", ""]])
    save_client_scores(run, [ClientScore(0, "a", 20, 0.5, 1.0)])
    return run


@pytest.fixture
def run(sound: Path, tmp_path: Path) -> Path:
    for path in sound.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def test_a_record_that_is_read_and_written_keeps_its_bytes(run: Path) -> None:
    before = (run / "run.json").read_bytes()
    write_record(run, read_record(run))
    assert (run / "run.json").read_bytes() == before


def test_a_change_keeps_order_older_settings_and_what_is_unknown(run: Path) -> None:
    entries = read_entries(run)
    del entries["config"]["optim"]["schedule"]
    older = {"later": {"x": 1}, **entries}
    found = RunRecord.of(older)
    assert found.config["optim"]["schedule"] == "constant"
    assert found.changed(reason="x").entries() == {**older, "reason": "x"}
    assert list(found.changed(reason="x").entries()) == list(older)


def test_unknown_metrics_and_entries_never_make_a_record_unreadable(run: Path) -> None:
    scores = {"accuracy": 0.5, "top_5": 0.9, "by_site": {"a": 1}, "rank": "first", "gain": None}
    change(run, results={"test": scores, "later": 1}, statistics={"readings": {"own": scores}},
           seconds={"rounds": 1.0, "later": 2.0})  # fmt: skip
    found = read_record(run)
    assert found.results.test == {"accuracy": 0.5, "top_5": 0.9}
    assert found.statistics.readings["own"] == found.results.test
    assert found.seconds.with_stage("after", 1.0) == {
        "rounds": 1.0, "later": 2.0, "after": 1.0, "total": 4.0
    }  # fmt: skip


@pytest.mark.parametrize("value", [1.5, -1, "0.5", True, None, float("nan"), 10**400])
def test_a_known_metric_has_a_value_that_it_can_have(run: Path, value: object) -> None:
    with pytest.raises(RecordError, match=r"run\.json: results\.test: a score: "):
        read_record(run).changed(results={"test": {"accuracy": value}})


def with_column(path: Path, place: int) -> None:
    """Add a column of quoted text."""
    with path.open(newline="") as file:
        rows = list(csv.reader(file))
    for number, row in enumerate(rows):
        row.insert(place, "more, of it" if number else "later")
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)


@pytest.mark.parametrize("place", [0, 2, 99])
def test_unknown_columns_are_left_out_of_every_table(run: Path, place: int) -> None:
    whole, clients = read_run(run), read_clients(run)
    by_class, scores = read_by_class(run, NAMES), read_client_scores(run)
    shown = details_of(run, "completed")
    for name in (ROUNDS, CLASSES, CLIENTS, CLASS_METRICS, CONFUSION, CLIENT_SCORES):
        with_column(run / name, place)
    found = read_run(run)
    assert (found.series, found.recall) == (whole.series, whole.recall)
    pd.testing.assert_frame_equal(read_clients(run)[clients.columns], clients)
    assert read_by_class(run, NAMES) == by_class
    assert read_client_scores(run) == scores
    assert details_of(run, "completed") == shown


def test_an_unknown_column_of_another_type_is_left_out_of_the_compact_table(run: Path) -> None:
    compact(run)
    (run / CLIENTS).unlink()
    frame = pd.read_parquet(run / PARQUET)
    frame.assign(later=[["x"]] * len(frame)).to_parquet(run / PARQUET, index=False)
    pd.testing.assert_frame_equal(read_clients(run), frame)


@pytest.mark.parametrize(
    "entries",
    [
        {"data": {"classes": [0] * 300_000}},
        {"data": {"classes": [], "clients": [-1] * 300_000}},
        {"components": dict.fromkeys(map(str, range(300_000)), 0)},
        {"workers": [0] * 300_000},
    ],
    ids=["classes", "clients", "components", "workers"],
)
def test_of_very_many_wrong_values_one_is_named(sound: Path, entries: dict[str, Any]) -> None:
    written = {**read_entries(sound), **entries}
    with pytest.raises(ValidationError) as many:
        RunRecord.model_validate(written)
    assert many.value.error_count() <= 3
    with pytest.raises(RecordError) as caught:
        RunRecord.of(written)
    assert len(str(caught.value)) < 300


def keys_of_records(path: Path) -> Iterator[str]:
    """Yield each entry that a file reads by name from something that it calls a record."""
    for node in ast.walk(ast.parse(path.read_text())):
        key: ast.expr | None = None
        of: ast.expr
        if isinstance(node, ast.Subscript):
            key, of = node.slice, node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            key, of = node.args[0] if node.args else None, node.func.value
            key = key if node.func.attr in ("get", "pop", "setdefault") else None
        if isinstance(key, ast.Constant) and key.value in RunRecord.model_fields:
            called = of.func if isinstance(of, ast.Call) else of
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name in HOLDERS:
                yield f"{path}: {ast.unparse(node)}"


def test_no_entry_is_read_by_name_outside_the_schema() -> None:
    files = [
        path
        for folder in ("client_app", "server_app", "task", "univarfl", "benchmarks", "docs")
        for path in (ROOT / folder).rglob("*.py")
        if path not in BY_NAME
    ]
    assert [line for path in files for line in keys_of_records(path)] == []
    readers = [path for path in files if "read_entries" in path.read_text()]
    assert readers == []


@pytest.mark.slow
def test_more_than_a_thousand_records_of_older_versions_are_read_and_reported(
    tmp_path: Path,
) -> None:
    read = 0
    for archive in SAVED:
        place = tmp_path / archive.name.partition(".")[0]
        unpack_records(archive, place)
        found = read_runs(place)
        assert [line for line in found.problems if "was interrupted" not in line] == []
        assert json.loads((found.runs[0].directory / "run.json").read_text())["format"] == 2
        assert write_report(place, place / "report").is_file()
        read += len(found.runs)
    assert read > 1000
