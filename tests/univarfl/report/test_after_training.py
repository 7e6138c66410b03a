"""The table of what stages after training changed, worked out by hand."""

from pathlib import Path

from server_app.runs.records.run_record import read_entries
from tests.server_app.runs.recorded import record, write_entries
from univarfl.records.reader import read_runs
from univarfl.report.after_training import TITLE, after_training_table
from univarfl.report.summary import Summary
from univarfl.report.write import report


def staged(place: Path, seed: int, before: float, after: float, stage: str = "ccvr") -> Path:
    """A completed run with a stage after training."""
    run = record(place, f"{stage}-{seed}", [f"after={stage}", f"seed={seed}"], [0.1, before])
    scores = {"before": {"accuracy": before}, "after": {"accuracy": after}}
    write_entries(run, read_entries(run) | {"after": {"name": stage, "seconds": 1.0, **scores}})
    return run


def test_gains_are_paired_by_run(tmp_path: Path) -> None:
    """Gains 10, 20, 30: mean 20, standard error 10 / sqrt(3), t(2) = 4.303, half width 24.8."""
    for seed, (before, after) in enumerate(((0.5, 0.6), (0.6, 0.8), (0.4, 0.7))):
        staged(tmp_path, seed, before, after)
    (row,) = after_training_table(Summary(read_runs(tmp_path).runs)).to_dict("records")
    assert row == {
        "setting": "all runs", "method": "UniVarFL", "stage": "CCVR", "seeds": 3,
        "before, %": "50.0 ± 10.0", "after, %": "70.0 ± 10.0",
        "gain, points": "+20.0 (-4.8 to +44.8)",
    }  # fmt: skip


def test_each_stage_has_a_row_and_runs_without_one_have_none(tmp_path: Path) -> None:
    record(tmp_path, "plain", [], [0.1, 0.5])
    staged(tmp_path, 0, 0.5, 0.75)
    staged(tmp_path, 0, 0.5, 0.25, stage="feddf")
    found = after_training_table(Summary(read_runs(tmp_path).runs))
    assert found[["setting", "stage", "gain, points"]].to_numpy().tolist() == [
        ["after CCVR", "CCVR", "+25.0"],
        ["after FedDF", "FedDF", "-25.0"],
    ]


def test_a_stage_without_test_images_has_no_row(tmp_path: Path) -> None:
    run = staged(tmp_path, 0, 0.5, 0.6)
    entry = read_entries(run)["after"] | {"before": {}, "after": {}}
    write_entries(run, read_entries(run) | {"after": entry})
    assert after_training_table(Summary(read_runs(tmp_path).runs)).empty


def test_the_page_has_a_section(tmp_path: Path) -> None:
    staged(tmp_path / "runs", 0, 0.5, 0.6)
    report(tmp_path / "runs", tmp_path / "report")
    page = (tmp_path / "report" / "index.html").read_text()
    assert TITLE in page
    assert "+10.0" in page
    record(tmp_path / "plain", "a", [], [0.1, 0.5])
    report(tmp_path / "plain", tmp_path / "other")
    assert TITLE not in (tmp_path / "other" / "index.html").read_text()
