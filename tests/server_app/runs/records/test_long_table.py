"""A long table of clients becomes Parquet when its run is completed, and reads as before."""

import math
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import univarfl
from server_app.aggregation.client_update import ClientUpdate
from server_app.config.composition import compose_experiment
from server_app.runs.checkpoint import Checkpoint, ModelState, save_checkpoint
from server_app.runs.recorder import Recorder
from server_app.runs.records.compaction import ROWS_AT_ONCE, compact
from server_app.runs.records.run_record import read_entries
from server_app.runs.records.tables import (
    CLIENT_COLUMNS,
    CLIENTS,
    MOST_ROWS_AS_CSV,
    PARQUET,
    RecordError,
)
from task.errors import ConfigError
from tests.server_app.runs.recorded import append_rows
from tests.univarfl.report.dashboard.test_dashboard import browser
from univarfl.records.clients import read_clients
from univarfl.report.dashboard.details import MOST_CLIENT_ROWS
from univarfl.report.dashboard.participants import MOST_ROWS

WORDS = ["engine=inprocess", "rounds=3", "watch.tensorboard=false", "run_id=run"]
TRAIN = {"ce": 1.0, "clients": 1, "failed": 0, "seconds": 1.0}
TEXT = ("site", "status", "reason", "device")
LONG = MOST_ROWS_AS_CSV // 2 + 1  # clients of a round; two rounds are too long for CSV


def updates(count: int) -> list[ClientUpdate]:
    """What clients sent: a formula as the site's name, a failure, and a loss that diverged."""
    first = [
        ClientUpdate(0, "=1+1", "cpu", "", 5, 0.25, {"ce": 0.1, "l_he": math.nan}),
        ClientUpdate(1, "007", reason="-1: no memory", examples=3),
    ]
    return [
        *first,
        *(ClientUpdate(at, "007", "cpu", "", at, at / 7, {"ce": 1 / at}) for at in range(2, count)),
    ]


def recorder_in(place: Path, *words: str) -> Recorder:
    place.mkdir(exist_ok=True)
    return Recorder(place / "run", compose_experiment([*WORDS, *words]))


def ended_after(place: Path, rounds: int, clients: int) -> Recorder:
    """A run that has these rounds, and is not yet completed."""
    recorder = recorder_in(place)
    for at in range(1, rounds + 1):
        recorder.round(at, {"train": TRAIN}, updates(clients))
    return recorder


def completed(place: Path, rounds: int, clients: int) -> Path:
    recorder = ended_after(place, rounds, clients)
    recorder.compact_clients()
    recorder.complete()
    recorder.close()
    return recorder.directory


def test_a_long_table_becomes_parquet_with_the_same_frame(tmp_path: Path) -> None:
    recorder = ended_after(tmp_path, 2, LONG)
    size = (recorder.directory / CLIENTS).stat().st_size
    before = univarfl.load_run(recorder.directory).clients
    recorder.compact_clients()
    recorder.complete()
    recorder.close()
    assert not (recorder.directory / CLIENTS).exists()
    assert (recorder.directory / PARQUET).stat().st_size < size / 3
    found = univarfl.load_run(recorder.directory).clients
    pd.testing.assert_frame_equal(found, before)
    assert len(found) == 2 * LONG
    assert found["site"].tolist()[:3] == ["=1+1", "007", "007"]
    assert found["reason"].dropna().unique().tolist() == ["-1: no memory"]
    assert found["ce"].iloc[2:4].tolist() == [1 / 2, 1 / 3]
    assert (found["client"].dtype, found["l_v"].dtype) == ("int64", "float64")


def test_a_table_of_several_parts_is_whole(tmp_path: Path) -> None:
    """The first part lacks every reason, and the last one every loss."""
    row = {**dict.fromkeys(CLIENT_COLUMNS, ""), "round": 1, "client": 2, "examples": 4}
    rows = [[*row.values(), 0.5]] * ROWS_AT_ONCE + [[*{**row, "reason": "late"}.values(), ""]] * 2
    append_rows(tmp_path / CLIENTS, [[*CLIENT_COLUMNS, "ce"], *rows])
    before = read_clients(tmp_path)
    compact(tmp_path)
    (tmp_path / CLIENTS).unlink()
    found = read_clients(tmp_path)
    pd.testing.assert_frame_equal(found, before)
    assert found["reason"].tolist()[-3:] == [pytest.approx(math.nan, nan_ok=True), "late", "late"]


def test_a_short_table_stays_csv(tmp_path: Path) -> None:
    run = completed(tmp_path, 2, 3)
    assert (run / CLIENTS).exists()
    assert not (run / PARQUET).exists()


def test_a_run_that_dies_before_its_last_line_is_resumed_from_csv(tmp_path: Path) -> None:
    recorder = ended_after(tmp_path, 1, LONG)
    state = ModelState({}, {}, {}, 1.0)
    last = Checkpoint(1, 1.0, state, {}, {}, recorder.marks([]))
    save_checkpoint(recorder.directory, last)
    for at in (2, 3):
        recorder.round(at, {"train": TRAIN}, updates(LONG))
    recorder.compact_clients()
    recorder.fail("the power failed")
    assert (recorder.directory / CLIENTS).exists()
    again = recorder_in(tmp_path, f"resume={recorder.directory}")
    assert not (again.directory / PARQUET).exists()
    assert set(read_clients(again.directory)["round"]) == {1}
    again.round(2, {"train": TRAIN}, updates(LONG))
    again.compact_clients()
    again.complete()
    again.close()
    assert len(read_clients(again.directory)) == 2 * LONG
    assert not (again.directory / CLIENTS).exists()


def test_a_table_that_cannot_be_rewritten_stays(tmp_path: Path) -> None:
    recorder = ended_after(tmp_path, 2, LONG)
    with (recorder.directory / CLIENTS).open("a") as file:
        file.write("three,0,,ok,,1,1,cpu\n")
    recorder.compact_clients()
    recorder.complete()
    recorder.close()
    assert (recorder.directory / CLIENTS).exists()
    assert "clients.csv stays as it is" in (recorder.directory / "run.log").read_text()
    assert read_entries(recorder.directory)["status"] == "completed"
    with pytest.raises(ConfigError, match=r"clients\.csv is damaged: column round"):
        _ = univarfl.load_run(recorder.directory).clients


def with_table(path: Path, **changes: Any) -> None:
    columns = {name: ["a"] for name in TEXT}
    pd.DataFrame({**columns, "round": [1], **changes}).to_parquet(path, index=False)


def with_much_text(path: Path) -> None:
    """3 GB of text in a small file: one text that every row repeats."""
    text = pa.DictionaryArray.from_arrays([0] * 3000, ["a" * 1_000_000])
    parquet.write_table(pa.table(dict.fromkeys(TEXT, text)), path, compression="zstd")
    assert path.stat().st_size < 100_000


def as_a_link(path: Path) -> None:
    path.rename(path.with_name("other"))
    path.symlink_to(path.with_name("other"))


def with_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda path: path.write_bytes(b""), "is damaged: "),
        (lambda path: path.write_bytes(path.read_bytes()[:-9]), "is damaged: "),
        (lambda path: path.write_bytes(b"PAR1" * 50), "is damaged: "),
        (lambda path: with_table(path, round=["1"]), "column round holds values of the type"),
        (lambda path: with_table(path, site=[1]), "column site holds values of the type int64"),
        (lambda path: with_table(path, ce=[[1.0]]), "column ce holds values of the type"),
        (lambda path: pd.DataFrame({"round": [1]}).to_parquet(path), "it has no column site"),
        (with_much_text, "bytes, which is too large"),
        (as_a_link, "symbolic"),
        (with_a_pipe, "it is not a regular file"),
    ],
)
def test_a_damaged_or_hostile_file_is_named(tmp_path: Path, damage: Any, reason: str) -> None:
    run = completed(tmp_path, 2, LONG)
    damage(run / PARQUET)
    with pytest.raises(RecordError, match=reason) as caught:
        read_clients(run)
    assert str(caught.value).startswith("clients.parquet")
    assert "\n" not in str(caught.value)
    answer = browser(tmp_path)
    found = answer.get("/api/runs/run").json()
    assert [line for line in found["problems"] if line.startswith("clients.parquet")]
    assert found["clients"] == []


def test_the_dashboard_shows_a_part_of_a_long_table_and_says_so(tmp_path: Path) -> None:
    run = completed(tmp_path, 25, LONG)
    count = 25 * LONG
    assert count > MOST_CLIENT_ROWS
    answer = browser(tmp_path)
    found = answer.get("/api/runs/run").json()
    assert "clients.parquet is long; its last 100,000 rows are counted" in found["problems"]
    assert [row[0] for row in found["clients"]] == [str(at) for at in range(MOST_ROWS)]
    assert found["counts"] == {"clients": LONG, "sites": 2}
    frame = read_clients(run).tail(MOST_CLIENT_ROWS)
    two = frame[frame["client"] == 2]
    assert found["clients"][2] == ["2", "007", len(two), 0, 2 * len(two), round(2 / 7, 3), ""]
    assert found["clients"][1][-1] == "-1: no memory"
