"""The file of the clients' scores: read back, damaged, summarised, and in reports."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from server_app.runs.records.client_scores import (
    CLIENT_SCORES,
    ClientScore,
    client_scores,
    save_client_scores,
    spread_over_clients,
)
from server_app.runs.records.tables import RecordError
from task.training.evaluation import Score
from tests.server_app.runs.recorded import record
from univarfl.records.reader import read_run, read_runs
from univarfl.records.scores import read_client_scores
from univarfl.report.breakdown.by_client import ByClient
from univarfl.report.charts.base import Plot
from univarfl.report.summary import Summary

FOUND = [
    ClientScore(0, "=north", 20, 0.5, 1.25),
    ClientScore(2, "NA", 40, 0.25, float("inf")),
    ClientScore(5, "south", 19, 1.0, 0.1),
]


def scored(directory: Path, accuracies: list[float]) -> None:
    """Add scores of so many clients, each with 20 images, to a record."""
    each = [ClientScore(at, "", 20, value, 1.0) for at, value in enumerate(accuracies)]
    save_client_scores(directory, each)
    path = directory / "run.json"
    content = json.loads(path.read_text()) | {"client_scores": spread_over_clients(each)}
    path.write_text(json.dumps(content))


def test_they_read_back(tmp_path: Path) -> None:
    assert read_client_scores(tmp_path) == []
    save_client_scores(tmp_path, FOUND)
    assert read_client_scores(tmp_path) == FOUND
    assert "'=north" in (tmp_path / CLIENT_SCORES).read_text()


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("0.25", "1.25", "cannot be 1.25"),
        ("0.25", "much", "'much' is not a number"),
        ("40", "-40", "'-40' is not a whole number"),
        ("loss", "error", "does not have the columns loss"),
        ("NA,40", "NA", "cut short"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, before: str, after: str, reason: str) -> None:
    save_client_scores(tmp_path, FOUND)
    text = (tmp_path / CLIENT_SCORES).read_text()
    assert before in text
    (tmp_path / CLIENT_SCORES).write_text(text.replace(before, after))
    with pytest.raises(RecordError, match=reason):
        read_client_scores(tmp_path)


def test_clients_without_held_out_images_have_no_score() -> None:
    scores = {3: Score(4, 1, 8.0), 1: Score(0, 0, 0.0)}
    assert client_scores(scores, ()) == [ClientScore(3, "", 4, 0.25, 2.0)]
    assert client_scores(scores, ["a", "b", "c", "d"])[0].site == "d"


def test_the_spread_is_over_clients_with_twenty_images() -> None:
    assert spread_over_clients(FOUND[2:]) == {"clients": 0, "too_few_images": 1}
    found = spread_over_clients(FOUND)
    assert found == {
        "clients": 2, "too_few_images": 1, "mean": 0.375, "worst_tenth": 0.25, "deviation": 0.125
    }  # fmt: skip


def test_the_worst_tenth_of_eleven_clients_is_the_mean_of_two() -> None:
    each = [ClientScore(at, "", 20, at / 10, 1.0) for at in range(11)]
    assert spread_over_clients(each)["worst_tenth"] == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("spread", "reason"),
    [
        ([], "client_scores: must be a JSON object"),
        ({"clients": 2, "too_few_images": 0}, "mean, worst_tenth or deviation is missing"),
        (
            {"clients": 0, "too_few_images": -1},
            "must be greater than or equal to 0",
        ),
        (
            {"clients": 1, "too_few_images": 0, "mean": 1.5, "worst_tenth": 0.5, "deviation": 0.0},
            "mean: must be less than or equal to 1",
        ),
        (
            {"clients": 1, "too_few_images": 0, "mean": "1", "worst_tenth": 0.5, "deviation": 0.0},
            "mean: must be a valid number",
        ),
    ],
)
def test_a_damaged_spread_is_named(tmp_path: Path, spread: Any, reason: str) -> None:
    directory = record(tmp_path, "one", ["method=fedavg"], [0.1, 0.5])
    path = directory / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"client_scores": spread}))
    with pytest.raises(RecordError, match=reason):
        read_run(directory)


def test_the_report_compares_methods_seed_by_seed(tmp_path: Path) -> None:
    for seed in (0, 1):
        for method, gain in (("fedavg", 0.0), ("univarfl", 0.1)):
            words = [f"method={method}", f"seed={seed}"]
            scored(
                record(tmp_path, f"{method}-{seed}", words, [0.1, 0.5]),
                [0.4 + gain, 0.6 + gain + 0.2 * seed],
            )
    record(tmp_path, "older", ["method=fedprox"], [0.1, 0.5])
    shown = ByClient(Summary(read_runs(tmp_path).runs))
    fedavg, univarfl = shown.table().to_dict("records")
    assert (fedavg["method"], fedavg["clients"]) == ("FedAvg", "2")
    assert fedavg["mean"] == "55.0 ± 7.1"
    assert fedavg["worst tenth minus FedAvg"] == ""
    assert univarfl["worst tenth"] == "50.0 ± 0.0"
    assert univarfl["worst tenth minus FedAvg"] == "+10.0"
    of_fedavg = shown.table("UniVarFL").set_index("method").loc["FedAvg"]
    assert of_fedavg["worst tenth minus UniVarFL"] == "-10.0"
    (chart,) = shown.charts()
    assert isinstance(chart.figure, Plot)
    assert [series.name for series in chart.figure.series] == ["FedAvg", "UniVarFL"]
    assert np.allclose(chart.figure.series[0].y, [40, 70])
    assert not shown.problems


def test_without_fedavg_the_first_method_is_subtracted(tmp_path: Path) -> None:
    for method, gain in (("fedprox", 0.0), ("univarfl", 0.1)):
        scored(record(tmp_path, method, [f"method={method}"], [0.1, 0.5]), [0.4 + gain, 0.6])
    table = ByClient(Summary(read_runs(tmp_path).runs)).table().set_index("method")
    assert table.loc["UniVarFL", "mean minus FedProx"] == "+5.0"


def test_a_damaged_file_is_left_out_of_the_report_and_named(tmp_path: Path) -> None:
    directory = record(tmp_path, "one", ["method=fedavg"], [0.1, 0.5])
    scored(directory, [0.5, 0.6])
    (directory / CLIENT_SCORES).write_text("nonsense")
    shown = ByClient(Summary(read_runs(tmp_path).runs))
    assert list(shown.charts()) == []
    (problem,) = shown.problems
    assert problem.startswith("one: client_scores.csv is cut short")
