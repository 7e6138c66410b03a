"""``univarfl analyse`` on real runs with all measures, and its tables in the report."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from safetensors.numpy import load_file, save
from scipy.spatial.distance import pdist
from scipy.stats import ttest_1samp

from server_app.config.composition import compose_experiment
from server_app.tracking.console import show_progress
from task.analysis.curvature import diagonal
from task.errors import ConfigError, RunError
from tests.conftest import SMALL_CNN, made_once
from tests.processes import UNIVARFL
from univarfl.analysis.analyse import DIRECTORY, MEASURES, analyse
from univarfl.analysis.analysed_run import AnalysedRun
from univarfl.analysis.drift import ClientDrift
from univarfl.engines.train import train_experiment
from univarfl.records.csv_tables import read_frame
from univarfl.records.reader import read_run
from univarfl.report.write import report

WORDS = [
    *(word for word in SMALL_CNN if word != "partition=iid"), "alpha=0.3", "rounds=3",
    "watch.models_every=2",
]  # fmt: skip
IMAGES = 12

pytestmark = pytest.mark.slow  # quick tests of measures are in test_measures.py


@pytest.fixture(scope="module", autouse=True)
def _all_digits(cache_of_all_digits: Path) -> Iterator[None]:
    """Use all digits in this module, because the clients' sizes must differ much."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNIVARFL_CACHE", str(cache_of_all_digits))
        yield


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with analysed runs of two methods, and a report on them."""

    def make(place: Path) -> None:
        for method in ("fedavg", "univarfl"):
            words = [*WORDS, f"method={method}", f"output_dir={place}", f"run_id={method}"]
            train_experiment(compose_experiment(words), words)
        analyse([place / "univarfl"], [], IMAGES)
        analyse([place / "fedavg"], ["drift", "curvature", "cost"], IMAGES)
        report(place, place / "report")

    return made_once(tmp_path_factory, "analysed_runs", make)


def table(runs: Path, name: str) -> pd.DataFrame:
    return pd.read_csv(runs / "univarfl" / DIRECTORY / f"{name}.csv")


def test_every_measure_leaves_its_table_and_pictures(runs: Path) -> None:
    for measure in MEASURES:
        found = table(runs, measure.name)
        assert tuple(found.columns) == (*measure.columns, "most images")
        assert set(found["most images"]) == {IMAGES}
    drawn = {path.stem.split("-")[0] for path in (runs / "univarfl" / DIRECTORY).glob("*.png")}
    assert drawn == {
        "singular", "spread", "drift", "training", "landscape", "features", "class",
    }  # fmt: skip


def test_singular_values_are_the_final_models(runs: Path) -> None:
    found = table(runs, "singular_values")
    matrix = load_file(runs / "univarfl" / "model.safetensors")["classifier.weight"]
    last = found[(found["round"] == 3) & (found["model"] == "global")]
    expected = np.linalg.svd(matrix.astype(np.float64), compute_uv=False)
    assert last["value"].to_numpy() == pytest.approx(expected, rel=1e-5)
    assert set(found[found["round"] == 2]["model"]) == {
        "global",
        *(f"client {at}" for at in range(4)),
    }


def test_spread_is_of_each_client_before_and_after_aggregation(runs: Path) -> None:
    found = table(runs, "spread")
    heads = found[["round", "client", "model", "images"]].drop_duplicates()
    looks = [("trained", "test"), ("trained", "own"), ("aggregated", "own")]
    each = [(client, *look) for client in range(4) for look in looks]
    assert sorted(heads.to_records(index=False).tolist()) == sorted(
        (2, *head) for head in [(-1, "aggregated", "test"), *each]
    )
    variance = found[found["measure"] == "probability variance"]
    classes = variance[variance["class"] >= 0].groupby(["client", "model", "images"])["value"]
    whole = variance[variance["class"] == -1].set_index(["client", "model", "images"])["value"]
    assert classes.mean().sort_index().to_numpy() == pytest.approx(whole.sort_index().to_numpy())


@pytest.fixture(scope="module")
def analysed(runs: Path) -> AnalysedRun:
    return AnalysedRun(read_run(runs / "univarfl"), IMAGES)


def test_spread_is_of_the_model_and_images_that_its_row_names(
    runs: Path, analysed: AnalysedRun
) -> None:
    found = table(runs, "spread").set_index(["client", "model", "images", "measure", "class"])
    found = found.sort_index()
    ((_, kept),) = analysed.rounds()
    images = analysed.worker.images
    for model, weights in (("trained", kept.clients[2]), ("aggregated", kept.aggregated)):
        with torch.no_grad():
            out = analysed.model(weights)(images[analysed.clients[2]][0])
        variance = out.logits.softmax(1).var(0).mean().item()
        even = pdist(F.normalize(out.features).cpu().numpy(), "sqeuclidean")
        rows = found["value"].loc[2, model, "own"]
        assert rows["probability variance", -1] == pytest.approx(variance, rel=1e-4)
        expected = np.log(np.exp(-2 * even).mean())
        assert rows["feature uniformity", -1] == pytest.approx(expected, rel=1e-4)


def test_drift_is_from_the_model_that_the_clients_received(
    runs: Path, analysed: AnalysedRun
) -> None:
    found = table(runs, "drift").set_index("client")["length"]
    ((_, kept),) = analysed.rounds()
    for client, own in kept.clients.items():
        square = sum(
            np.square(own[name].astype(float) - kept.received[name]).sum()
            for name, _ in analysed.worker.model.named_parameters()
        )
        assert found[client] == pytest.approx(square**0.5, rel=1e-6)


def test_curvature_is_of_the_mean_loss_over_all_training_images(
    runs: Path, analysed: AnalysedRun
) -> None:
    """The trace of the largest client's Hessian alone has another value."""
    sizes = [len(split.train) for split in analysed.worker.data.clients.values()]
    assert analysed.shares == pytest.approx([size / sum(sizes) for size in sizes])
    traces = [
        diagonal(analysed.model(), analysed.worker.images, of).sum().item()
        for of in analysed.clients.values()
    ]
    (found,) = table(runs, "curvature")["trace"]
    assert found == pytest.approx(np.average(traces, weights=sizes), rel=1e-6)
    assert found != pytest.approx(np.mean(traces), rel=1e-5)


def test_the_map_has_each_image_once(runs: Path) -> None:
    found = table(runs, "features")
    assert len(found) == 4 * IMAGES
    assert len(found[["x", "y"]].drop_duplicates()) == len(found)


def test_the_map_of_one_class_has_each_test_image_once_for_each_client(
    runs: Path, analysed: AnalysedRun
) -> None:
    found = table(runs, "class_features")
    dataset = analysed.worker.data.dataset
    count = min(IMAGES, int((dataset.labels[dataset.test] == 0).sum()))
    assert set(found["class"]) == {0}
    assert found["client"].value_counts().to_dict() == dict.fromkeys(range(4), count)


def test_the_class_of_a_map_can_be_chosen(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = shutil.copytree(runs / "univarfl", tmp_path / "univarfl")
    analyse([own], ["class_features"], IMAGES, "7")
    assert set(pd.read_csv(own / DIRECTORY / "class_features.csv")["class"]) == {7}
    show_progress()
    with pytest.raises(RunError, match="some measures failed for 1 run"):
        analyse([own], ["class_features"], IMAGES, "seven")
    assert "--class=seven: choose one of 0, 1, 2" in capsys.readouterr().out


def test_a_measure_that_a_gpu_has_no_memory_for_does_not_end_the_others(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(*_: object) -> None:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.")

    own = shutil.copytree(runs / "fedavg", tmp_path / "fedavg")
    show_progress()
    monkeypatch.setattr(ClientDrift, "measure", short)
    with pytest.raises(RunError, match="some measures failed for 1 run"):
        analyse([own], ["drift", "training_loss"], IMAGES)
    said = capsys.readouterr().out
    assert "drift: failed: the GPU has too little memory" in said
    assert "training_loss: failed" not in said


def test_the_training_loss_is_the_kept_global_models_on_every_training_image(
    runs: Path, analysed: AnalysedRun
) -> None:
    found = table(runs, "training_loss")
    ((kept_round, kept),) = analysed.rounds()
    worker = analysed.worker
    every = torch.cat([torch.from_numpy(one.train) for one in worker.data.clients.values()])
    images, labels = worker.images[every]
    with torch.no_grad():
        loss = F.cross_entropy(analysed.model(kept.aggregated)(images).logits, labels)
    assert found[["round", "loss"]].to_numpy().tolist() == [
        [kept_round, pytest.approx(loss.item(), rel=1e-5)]
    ]


def test_published_numbers_stand_beside_a_measures_own(runs: Path, tmp_path: Path) -> None:
    place = shutil.copytree(runs / "fedavg", tmp_path / "runs" / "fedavg")
    further = {"top_eigenvalue": 297, "H_D": 0.98, "round_seconds": 137.2}
    record = json.loads((place / "run.json").read_text())
    cell = {"at": {"method": "fedavg"}, "mean": 52.9, "further": further}
    record["config"]["published"] = [
        {"name": "T1", "at": {}, "any_value": ["optim.lr"], "cells": [cell]}
    ]
    (place / "run.json").write_text(json.dumps(record))
    report(tmp_path / "runs", tmp_path / "report")
    tables = {
        name: pd.read_csv(tmp_path / "report" / "tables" / f"{name}.csv")["published"].tolist()
        for name in ("curvature", "cost", "accuracy")
    }
    assert tables == {
        "curvature": ["top eigenvalue 297 (T1)"],
        "cost": ["seconds a round 137.2 (T1)"],
        "accuracy": ["52.9 (T1)"],
    }


def test_the_report_shows_methods_beside_each_other(runs: Path) -> None:
    page = (runs / "report" / "index.html").read_text()
    for measure in MEASURES:
        assert f">{measure.title}</h2>" in page
    curvature = pd.read_csv(runs / "report" / "tables" / "curvature.csv")
    assert curvature["method"].tolist() == ["FedAvg", "UniVarFL"]
    assert (runs / "report" / "tables" / "cost.tex").exists()


def test_methods_are_compared_on_the_same_seeds(runs: Path, tmp_path: Path) -> None:
    """Pairs of known values; a seed of only one method is in no pair."""
    lengths = {"fedavg": [1.0, 2.0, 4.0], "univarfl": [2.0, 2.5, 4.5, 9.0]}
    for method, own in lengths.items():
        for seed, length in enumerate(own):
            place = shutil.copytree(runs / method, tmp_path / "runs" / f"{method}{seed}")
            record = json.loads((place / "run.json").read_text())
            record["config"]["seed"] = seed
            (place / "run.json").write_text(json.dumps(record))
            path = place / DIRECTORY / "drift.csv"
            pd.read_csv(path).assign(length=length).to_csv(path, index=False)
    report(tmp_path / "runs", tmp_path / "report")
    tables = tmp_path / "report" / "tables"
    levels = pd.read_csv(tables / "client_drift.csv").set_index("method")
    assert levels["length"].to_dict() == {"FedAvg": "2.333 ± 1.528", "UniVarFL": "4.500 ± 3.189"}
    (row,) = read_frame(tables / "paired_differences_in_client_drift.csv").to_dict("records")
    low, high = ttest_1samp([1.0, 0.5, 0.5], 0).confidence_interval(0.95)
    assert (row["method"], row["minus"], row["pairs"]) == ("UniVarFL", "FedAvg", 3)
    assert row["length"] == f"+0.667 ({low:+.3f} to {high:+.3f})"
    assert not str(row["cosine"]).endswith(")")


@pytest.mark.parametrize(
    "damage",
    [
        "no number",
        "",
        "nothing",
        "\0\xff",
    ],
)
def test_a_damaged_table_is_named_and_the_rest_goes_on(
    damage: str, runs: Path, tmp_path: Path
) -> None:
    path = runs / "fedavg" / DIRECTORY / "drift.csv"
    whole = path.read_text()
    path.write_text(damage if damage != "no number" else whole.replace("2,0,", "2,zero,"))
    try:
        report(runs, tmp_path / "report")
    finally:
        path.write_text(whole)
    page = (tmp_path / "report" / "index.html").read_text()
    cure = "write it again with: univarfl analyse"
    assert f"fedavg: analysis/drift.csv is damaged or of another version; {cure}" in page
    assert '<h2 id="client-drift">' in page


class TestRefusals:
    def test_no_such_measure(self, runs: Path) -> None:
        with pytest.raises(ConfigError, match=r"--only=sharpness: choose from singular_values, "):
            analyse([runs / "fedavg"], ["sharpness"], IMAGES)

    def test_nothing_is_measured_where_a_place_is_wrong(self, runs: Path, tmp_path: Path) -> None:
        place = copied(runs, tmp_path / "a", "model.safetensors")
        with pytest.raises(ConfigError, match="nowhere: there is no such directory"):
            analyse([place, tmp_path / "nowhere"], ["cost"], IMAGES)
        assert not (place / DIRECTORY).exists()

    def test_samples_of_different_sizes_are_not_averaged(self, runs: Path, tmp_path: Path) -> None:
        analyse([runs / "fedavg"], ["spread"], IMAGES - 1)
        report(runs, tmp_path / "report")
        page = (tmp_path / "report" / "index.html").read_text()
        assert f"spread: runs were analysed with --images {IMAGES - 1} and {IMAGES}" in page
        assert '<h2 id="spread' not in page
        assert "of each client and of the test set" in page

    def test_a_run_that_is_not_completed(self, runs: Path, tmp_path: Path) -> None:
        text = (runs / "fedavg" / "run.json").read_text()
        (tmp_path / "run.json").write_text(text.replace('"completed"', '"failed"'))
        with pytest.raises(RunError, match="has no completed run"):
            analyse([tmp_path], [], IMAGES)


def copied(runs: Path, place: Path, *names: str) -> Path:
    """Copy a run's record and some of its other files; return the new directory."""
    place.mkdir()
    for name in ("run.json", "rounds.csv", "clients.csv", "classes.csv", *names):
        (place / name).write_bytes((runs / "fedavg" / name).read_bytes())
    return place


def test_a_run_that_cannot_be_measured_is_named_and_the_next_one_is_measured(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Five runs: a damaged model, two changed data sets, missing files, and a complete one."""
    bad = copied(runs, tmp_path / "a")
    (bad / "model.safetensors").write_bytes(b"\x10")
    other = copied(runs, tmp_path / "b", "model.safetensors")
    record = json.loads((other / "run.json").read_text())
    record["data"]["clients"][0] += 1
    (other / "run.json").write_text(json.dumps(record))
    changed = copied(runs, tmp_path / "b2", "model.safetensors")
    record = json.loads((changed / "run.json").read_text())
    (changed / "run.json").write_text(json.dumps(record | {"data_version": "0" * 24}))
    halved = copied(runs, tmp_path / "c", "model.safetensors")
    (halved / "models").mkdir()
    (halved / "models" / "round-000002.safetensors").write_bytes(save({"client-0/w": np.ones(1)}))
    (halved / "clients.csv").unlink()
    whole = copied(runs, tmp_path / "d", "model.safetensors")
    show_progress()
    with pytest.raises(RunError, match="some measures failed for 4 runs"):
        analyse([tmp_path], ["singular_values", "curvature", "spread", "cost"], IMAGES)
    said = capsys.readouterr().out
    wrong = f"run={bad / 'model.safetensors'}: is not the model that the run wrote"
    assert f"singular_values: failed: {wrong}" in said
    assert "curvature: failed: for the same reason" in said
    assert (bad / DIRECTORY / "cost.csv").exists()
    assert f"run={changed}: its images have changed" in said
    assert f"run={other}: its clients now have other numbers of images" in said
    assert "round-000002.safetensors: is damaged: the global models of the r" in said
    assert "cost: failed: clients.csv: no such file or directory" in said
    assert (halved / DIRECTORY / "curvature.csv").exists()
    assert (whole / DIRECTORY / "cost.csv").exists()


def test_the_command_prints_its_own_lines_alone(
    runs: Path, tmp_path: Path, cache_of_all_digits: Path
) -> None:
    """Second derivatives import Triton, which at the end reports whatever is left as a leak."""
    own = shutil.copytree(runs / "univarfl", tmp_path / "univarfl")
    words = [UNIVARFL, "analyse", str(own), "--only", "curvature", "--images", "4"]
    environment = {**os.environ, "UNIVARFL_CACHE": str(cache_of_all_digits)}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=True)
    assert [line.split(":")[0].strip() for line in done.stdout.splitlines() if line] == [
        "univarfl",
        "curvature",
    ]
    assert not done.stderr
