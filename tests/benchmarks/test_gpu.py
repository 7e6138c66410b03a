"""The GPU checklist, tried on the CPU in its tiny form."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.gpu import (
    bits,
    chip,
    graphed,
    kernels,
    memory,
    pacs,
    records,
    rounds,
    schedule,
    steps,
)
from benchmarks.gpu.__main__ import main
from benchmarks.gpu.parts import PARTS
from benchmarks.gpu.report import TITLES, report
from benchmarks.gpu.unit import Result, Settings, Unit
from tests.task.data import making

ONE_RUN = ("fedavg-cnn",)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return making.pacs(tmp_path_factory.mktemp("data") / "PACS")


@pytest.fixture
def settings(tmp_path: Path, root: Path) -> Settings:
    return Settings(tmp_path / "records", "cpu", quick=True, pacs=root)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Result:
    place = tmp_path_factory.mktemp("records")
    return pacs.together(ONE_RUN, Settings(place, "cpu", quick=True, pacs=root))


def record(unit: Unit, outcome: Result) -> records.Record:
    common = {"device": "cpu", "quick": True, "seconds": 1.0, "ended": "2026-01-01"}
    return {"part": unit.part, "name": unit.name, **common, **outcome}


def test_units_have_names_of_their_own_and_a_section() -> None:
    names = [unit.name for units in PARTS.values() for unit in units]
    assert len(set(names)) == len(names)
    assert set(TITLES) == set(PARTS)


@pytest.mark.parametrize(
    ("name", "peak", "source"),
    [
        ("NVIDIA H200", 989, "data sheet"),
        ("NVIDIA A100-SXM4-80GB", 312, "data sheet"),
        ("NVIDIA H100 PCIe", 756, "data sheet"),
        ("NVIDIA RTX 5000", 1.5, "measured matrix product"),
    ],
)
def test_the_peak_is_from_the_data_sheet_if_the_chip_is_known(
    name: str, peak: float, source: str
) -> None:
    assert chip.peak({"name": name, "measured": {"bfloat16": 1.5}}, "bfloat16") == (peak, source)


def test_each_part_runs_in_its_tiny_form_and_is_reported(
    settings: Settings, published: Result
) -> None:
    run = bits.hashed("pacs", 2, settings)
    kept = [
        (chip.units()[0], chip.measure(settings)),
        (bits.units()[2], run | {"model_sha256": "another"}),
        (bits.units()[3], run),
        (steps.units("eager")[0], steps.measure("eager", "cnn", 128, "float32", settings)),
        (steps.units("eager")[9], steps.measure("eager", "cnn", 64, "float32", settings)),
        (graphed.units()[1], graphed.measure("cnn", "float32", settings)),
        (kernels.units()[0], kernels.measure("cnn", "float32", settings)),
        (rounds.units()[0], rounds.measure("threads", 1, settings)),
        (rounds.units()[7], rounds.measure("threads", 2, settings)),
        (memory.units()[0], {"failed": {"batch": 20, "error": "x"}, "fits": None}),
        (pacs.units()[0], published),
    ]
    for unit, result in kept:
        records.write(settings.folder, record(unit, {"result": result}))
    full, half = (kept[at][1]["methods"]["fedavg"] for at in (3, 4))
    assert full["operations"] == 2 * half["operations"] > 0
    page = report(settings.output)
    assert "CPU trial" in page
    assert "pacs: bits are NOT EQUAL." in page
    assert "4 clients; bits are equal." in page
    assert page.split("## Recorded steps")[1].split("\n## ")[0].count("| equal") == 1
    eager = page.split("## Step time, eager")[1].split("\n## ")[0]
    for method in steps.QUICK_METHODS:
        assert f"| {method} " in eager
    assert "1.00x" in eager
    assert "62.5 ± 0.4" in page
    assert "| cnn, float32, contiguous    | aten::convolution_backward" in page


def test_a_batch_that_is_too_large_names_one_that_fits(settings: Settings) -> None:
    failed = memory.epoch(2 * memory.QUICK_LIMIT, settings)
    named = memory.NAMED.search(failed["error"])
    assert named is not None
    assert "error" not in memory.epoch(int(named[1]), settings)


def test_an_interrupted_run_is_continued(
    settings: Settings, published: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    name, directory = ONE_RUN[0], pacs.place(ONE_RUN[0], settings)
    with monkeypatch.context() as patch:
        patch.setattr("server_app.runs.recorder.Recorder.save_model", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pacs.train(name, directory, settings)
    assert not pacs.done(directory)
    again = pacs.together(ONE_RUN, settings)
    assert again[name]["model_sha256"] == published[name]["model_sha256"]
    assert json.loads((directory / "run.json").read_text())["resumed_from"] == 1


def test_the_methods_train_with_the_network_that_came_nearer(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    averaged = {"fedavg-cnn": 40.0, "fedavg-resnet18": 60.0}
    monkeypatch.setattr(pacs, "read", lambda name, _: {"averaged": averaged[name]})
    monkeypatch.setattr(pacs, "together", lambda names, _: {name: {} for name in names})
    assert list(pacs.methods(settings)) == ["univarfl-resnet18", "feduv-resnet18"]


def measured(settings: Settings) -> Result:
    return {"made in": str(settings.folder)}


def broken(settings: Settings) -> Result:
    raise ValueError("no luck")


def test_done_units_are_skipped_and_failed_ones_come_last(settings: Settings) -> None:
    units = [Unit("chip", name, measured) for name in ("a", "b", "c")]
    units.append(Unit("chip", "d", measured, needs_pacs=True))
    records.write(settings.folder, record(units[0], {"error": "no luck"}))
    records.write(settings.folder, record(units[1], {"result": {}}))
    assert [unit.name for unit in schedule.waiting(units, settings)] == ["c", "d", "a"]
    without = replace(settings, pacs=None)
    assert [unit.name for unit in schedule.waiting(units, without)] == ["c", "a"]


def test_a_failure_is_reported(settings: Settings) -> None:
    unit = Unit("bits", "broken", broken)
    records.write(settings.folder, record(unit, {"error": "Traceback\nValueError: no luck"}))
    assert "- broken failed: ValueError: no luck" in report(settings.output)


def test_the_command_names_parts_that_do_not_exist(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["egaer", "--output", str(tmp_path)])
    assert "unknown part 'egaer'; choose from chip, bits," in capsys.readouterr().err
    assert main(["report", "--output", str(tmp_path)]) == 0
    assert "There are no records in" in capsys.readouterr().out


@pytest.mark.slow
def test_units_run_in_processes_until_the_time_is_up(settings: Settings) -> None:
    names = {"rounds-processes-2", "rounds-mps-2", "memory"}
    units = [unit for part in PARTS.values() for unit in part if unit.name in names]
    units.append(Unit("bits", "broken", broken))
    left = schedule.run_all(units, settings, 300)
    found = records.read(settings.folder)
    assert [unit.name for unit in left] == ["broken"]
    assert "no luck" in found["broken"]["error"]
    assert found["rounds-processes-2"]["result"]["clients"] == rounds.QUICK_CLIENTS
    assert found["memory"]["result"]["fits"] is True
    stopped = schedule.run(Unit("pacs", "slow", pacs.networks), settings, 0.01)
    assert "stopped" in stopped
