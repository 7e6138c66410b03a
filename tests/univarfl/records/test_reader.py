"""Records read back, and those that no run has written."""

import json
import math
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from server_app.config.composition import compose_experiment
from server_app.runs.recorder import Recorder
from server_app.runs.records import tables
from server_app.runs.records.record import FORMAT
from server_app.runs.records.run_record import read_entries
from task.errors import ConfigError
from tests.conftest import FEW_TO_TEST, Train
from tests.server_app.runs.recorded import record, write_entries
from univarfl.records.reader import read_runs
from univarfl.report.summary import Summary
from univarfl.terminal import steps

GOOD: tuple[list[str], list[float]] = ([], [0.1, 0.5, 0.6])


def test_a_real_run_reads_back(train: Train) -> None:
    run = train()
    (found,) = read_runs(run.parent).runs
    assert read_runs(run).runs == [found]
    assert sorted(found.series["test", "accuracy"]) == [0, 1, 2]
    results = read_entries(run)["results"]["test"]
    assert found.series["test", "accuracy"][2] == results["accuracy"]
    assert set(results) == {
        "accuracy", "loss", "balanced_accuracy", "macro_f1", "calibration_error", "auroc",
        "average_precision",
    }  # fmt: skip
    counts, recalls = zip(*found.recall.values(), strict=True)
    assert sum(counts) == FEW_TO_TEST
    right = sum(n * r for n, r in zip(counts, recalls, strict=True)) / FEW_TO_TEST
    assert right == pytest.approx(results["accuracy"], abs=1e-6)


def edit(name: str, change: Callable[[str], str]) -> Callable[[Path], None]:
    def apply(run: Path) -> None:
        path = run / name
        path.write_text(change(path.read_text()))

    return apply


def entry(key: str, value: object) -> Callable[[Path], None]:
    return edit("run.json", lambda text: json.dumps(json.loads(text) | {key: value}))


def link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def garble(run: Path) -> None:
    (run / "rounds.csv").write_bytes(b"\xff\xfe\x00")


TABLE = "rounds.csv"
BROKEN: dict[str, tuple[Callable[[Path], None], str]] = {
    "no run.json": (lambda run: (run / "run.json").unlink(), "run.json: no such file"),
    "no rounds.csv": (lambda run: (run / "rounds.csv").unlink(), "rounds.csv: no such file"),
    "no classes.csv": (lambda run: (run / "classes.csv").unlink(), "classes.csv: no such file"),
    "json cut short": (edit("run.json", lambda text: text[:-40]), "run.json is cut short"),
    "json of a great depth": (edit("run.json", lambda _: "[" * 100_000), "run.json is cut short"),
    "a link": (lambda run: link(run / "run.json"), "run.json: "),
    "a million million rounds": (
        edit("run.json", lambda text: text.replace('"rounds": 2,', f'"rounds": {10**12},')),
        f"rounds.csv lacks round 3 of {10**12}",
    ),
    "json of something else": (edit("run.json", lambda _: "[]"), "run.json is not a JSON object"),
    "no format": (edit("run.json", lambda _: "{}"), "run.json has no format"),
    "another version": (entry("format", 99), f"format 99; this version reads 1 and {FORMAT}"),
    "entries missing": (edit("run.json", lambda _: '{"format": 2}'), "status: it is missing"),
    "unknown status": (entry("status", "great"), "must be 'completed', 'failed' or"),
    "no seed": (
        edit("run.json", lambda t: t.replace('"seed"', '"sead"')), "config: it has no seed"
    ),
    "no classes": (entry("data", {}), "data.classes: it is missing"),
    "too many classes": (entry("data", {"classes": ["one"]}), "has more classes than run.json"),
    "no accuracy": (
        edit(TABLE, lambda t: "".join(x for x in t.splitlines(True) if ",accuracy" not in x)),
        "has no accuracy after its last round",
    ),
    "no config": (entry("config", 3), "config: must be a JSON object"),
    "cut in a line": (edit(TABLE, lambda t: t[:-1]), "rounds.csv is cut short"),
    "cut in a row": (edit(TABLE, lambda t: t + "2,test\n"), "is cut short"),
    "rounds missing": (
        edit(TABLE, lambda t: "".join(x for x in t.splitlines(True) if x[0] != "2")),
        "rounds.csv lacks round 2 of 2",
    ),
    "other columns": (
        edit(TABLE, lambda t: t.replace("split", "part")), "does not have the columns"
    ),
    "split": (edit(TABLE, lambda t: t.replace("validation", "exam")), "unknown split 'exam'"),
    "no number": (edit(TABLE, lambda t: t.replace(",0.6\n", ",much\n")), "'much' is not a number"),
    "not finite": (edit(TABLE, lambda t: t.replace(",0.6\n", ",nan\n")), "cannot be nan"),
    "above 1": (edit(TABLE, lambda t: t.replace(",0.6\n", ",1.6\n")), "accuracy cannot be 1.6"),
    "twice": (edit(TABLE, lambda t: t + t.splitlines(True)[-1]), "appears twice"),
    "half a round": (edit(TABLE, lambda t: t.replace("\n2,", "\n2.5,")), "is not a whole number"),
    "not text": (garble, "does not have the columns"),
    "a pipe": (lambda run: pipe(run / TABLE), "rounds.csv: it is not a regular file"),
    "an endless file": (lambda run: endless(run / TABLE), "rounds.csv: too many levels"),
    "a number of 5,000 digits": (
        edit(TABLE, lambda t: t.replace("\n2,", f"\n{'9' * 5000},")), "is not a whole number"
    ),
    "no num_clients": (
        edit("run.json", lambda t: t.replace('"num_clients"', '"clients"')), "has no num_clients"
    ),
    "a rho of text": (edit("run.json", lambda t: t.replace('"rho": 1.0', '"rho": "x"')), "no rho"),
    "a huge rho": (
        edit("run.json", lambda t: t.replace('"rho": 1.0', f'"rho": 1{"0" * 400}')), "no rho"
    ),
    "privacy of text": (entry("privacy", "x"), "privacy: must be a JSON object"),
    "half a character": (
        edit("run.json", lambda t: t.replace('"reason": ""', r'"reason": "\ud800"')), "not Unicode"
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", BROKEN)
def test_a_broken_record_is_named_and_the_rest_is_read(tmp_path: Path, damage: str) -> None:
    record(tmp_path, "good", *GOOD)
    bad = record(tmp_path, "bad", *GOOD)
    apply, message = BROKEN[damage]
    apply(bad)
    found = read_runs(tmp_path)
    assert [run.directory.name for run in found.runs] == ["good"]
    (problem,) = found.problems
    assert problem.startswith("bad: ")
    assert message in problem


def test_a_metric_of_another_version_is_read_as_a_number(tmp_path: Path) -> None:
    run = record(tmp_path, "run", *GOOD)
    values = ("test,focal_loss,inf", "test,top_5,0.9", "test,<b>,1", "test,rank,one", "train,t,nan")
    edit(TABLE, lambda text: text + "".join(f"2,{value}\n" for value in values))(run)
    (found,) = read_runs(tmp_path).runs
    assert found.series["test", "focal_loss"] == {2: math.inf}
    assert found.series["test", "top_5"] == {2: 0.9}
    assert not {("test", "<b>"), ("test", "rank"), ("train", "t")} & found.series.keys()
    assert "top_5" not in Summary([found]).further()


def test_of_very_long_tables_the_end_is_enough_for_the_last_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = record(tmp_path, "run", *GOOD)
    (whole,) = read_runs(tmp_path).runs
    lines = (run / "classes.csv").read_text().splitlines(keepends=True)
    many = "".join(lines[1:11]) * 1000
    (run / "classes.csv").write_text(lines[0] + many + "".join(lines[11:]))
    monkeypatch.setattr(tables, "LARGEST_TABLE", 10_000)
    (found,) = read_runs(tmp_path).runs
    assert found.recall == whole.recall
    (run / "rounds.csv").write_text((run / "rounds.csv").read_text() + "\n" * 10_000)
    assert read_runs(tmp_path).problems == ["run: rounds.csv has more than 0 MiB"]


def test_a_record_of_the_version_before_is_read(tmp_path: Path) -> None:
    run = record(tmp_path, "old", *GOOD)
    write_entries(run, read_entries(run) | {"format": 1})
    (run / "classes.csv").unlink()
    (found,) = read_runs(tmp_path).runs
    assert found.recall == {}


def test_a_failed_run_is_named_until_another_has_done_its_work(tmp_path: Path) -> None:
    for name in ("first", "second"):
        recorder = Recorder(tmp_path / name, compose_experiment(["rounds=2"]))
        if name == "first":
            recorder.fail("interrupted")
    assert read_runs(tmp_path).problems == [
        "first: was interrupted", "second: is still running, or was killed"
    ]  # fmt: skip
    record(tmp_path, "third", *GOOD)
    assert read_runs(tmp_path).problems == []


@pytest.mark.parametrize("place", ["empty", "missing"])
def test_a_place_without_runs_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError):
        read_runs(tmp_path / place)


@pytest.mark.parametrize("many", [2, 3])
def test_a_bar_is_shown_on_a_terminal_while_many_records_are_read(
    many: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(steps, "FEW", many)
    for name in ("one", "two"):
        record(tmp_path, name, [], [0.1, 0.5])
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert len(read_runs(tmp_path).runs) == 2
    assert ("reading records" in capsys.readouterr().out) == (many == 2)
