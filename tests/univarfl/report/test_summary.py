"""Numbers of a report, worked out by hand beside each."""

import math
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from server_app.runs.records.older import ALL_IMAGES
from tests.server_app.runs.recorded import change, record
from univarfl.records.reader import read_runs
from univarfl.report.charts.of_runs import charts as all_charts
from univarfl.report.comparison import compare
from univarfl.report.readings import BEST, EXACT, LAST, LAST_FIVE, readings
from univarfl.report.settings import format_value, heading_of
from univarfl.report.statistics import difference
from univarfl.report.summary import Summary


def summary(place: Path) -> Summary:
    return Summary(read_runs(place).runs)


def test_the_readings(tmp_path: Path) -> None:
    """Validation is best after rounds 3 and 5; the earlier has test accuracy 0.7."""
    test = [0.1, 0.2, 0.9, 0.7, 0.4, 0.5, 0.6]
    validation = [0.0, 0.2, 0.3, 0.8, 0.7, 0.8, 0.1]
    run = read_runs(record(tmp_path, "a", [], test, validation)).runs[0]
    mean = (0.9 + 0.7 + 0.4 + 0.5 + 0.6) / 5
    expected = {LAST: 0.6, LAST_FIVE: mean, BEST: 0.7, EXACT: math.nan}
    assert readings(run) == pytest.approx(expected, nan_ok=True)


def with_exact(place: Path, name: str, words: list[str], last: float, exact: float) -> None:
    """Record a run with its last accuracy and that with statistics of all images."""
    directory = record(place, name, words, [0.1, last])
    change(directory, statistics={"readings": {ALL_IMAGES: {"accuracy": exact}}})


def test_statistics_of_all_images_are_a_reading_with_a_paired_interval(tmp_path: Path) -> None:
    for seed, gain in enumerate((0.01, 0.02, 0.03)):
        words = [f"seed={seed}", "engine=inprocess"]
        with_exact(tmp_path, f"a{seed}", [*words, "method=fedavg"], 0.3, 0.6)
        with_exact(tmp_path, f"u{seed}", [*words, "method=univarfl"], 0.2, 0.6 + gain)
    found = summary(tmp_path)
    assert found.headline == LAST
    assert found.accuracies()[EXACT].tolist() == ["60.0 ± 0.0", "62.0 ± 1.0"]
    (row,) = found.differences().to_dict("records")
    assert row[EXACT] == "+2.0 (-0.5 to +4.5)"
    assert row[LAST] == "-10.0"
    charts = [chart.name for chart in all_charts(found)]
    assert any(name.startswith("bars-exact") for name in charts)
    pair = compare(tmp_path / "a0", tmp_path / "u0").paired_tests()
    assert [("last round" in one, EXACT in one) for one in pair] == [(True, False), (False, True)]
    assert "+2.0 points over 3 seeds" in pair[1]


def test_the_headline_of_models_with_exact_statistics_is_theirs(tmp_path: Path) -> None:
    with_exact(tmp_path, "a", ["method=fedavg", "model.statistics=exact"], 0.3, 0.6)
    found = summary(tmp_path)
    assert found.headline == EXACT
    assert "60.0" in found.glance().iloc[0].tolist()
    assert "model.statistics=exact" in found.accuracy_sections()[0].note


def test_readings_that_are_no_scores_are_refused(tmp_path: Path) -> None:
    for name, readings_ in (("a", []), ("b", {"x": 1}), ("c", {"x": {"accuracy": "high"}})):
        change(record(tmp_path, name, [], [0.1, 0.2]), statistics={"readings": readings_})
    problems = read_runs(tmp_path).problems
    assert len(problems) == 3
    assert all("run.json: statistics.readings" in problem for problem in problems)


def test_a_round_that_its_own_clients_validate_is_not_chosen(tmp_path: Path) -> None:
    test, validation = [0.1, 0.2, 0.3, 0.4], [0.0, 0.9, 0.5, 0.3]
    (run,) = read_runs(record(tmp_path, "a", [], test, validation)).runs

    def best(*clients: int) -> float:
        counts = {("validation", "clients"): dict(enumerate(clients, 1))}
        return readings(replace(run, series={**run.series, **counts}))[BEST]

    partial = replace(run, record=run.record.changed(config={**run.config, "rho": 0.5}))
    assert best(10, 10, 10) == 0.2
    assert math.isnan(readings(partial)[BEST])
    assert best(9, 10, 10) == 0.3  # a client did not answer
    assert math.isnan(best(3, 3, 10))  # three of ten train


def test_seeds_become_means_and_deviations_of_the_sample(tmp_path: Path) -> None:
    """50, 60, 70: mean 60, standard deviation sqrt((100 + 0 + 100) / 2) = 10."""
    for seed, accuracy in enumerate((0.5, 0.6, 0.7)):
        record(tmp_path, f"s{seed}", [f"seed={seed}"], [0.1, accuracy])
    (row,) = summary(tmp_path).accuracies().to_dict("records")
    assert row["method"] == "UniVarFL"
    assert row["seeds"] == 3
    assert row[LAST] == "60.0 ± 10.0"
    assert "published" not in row
    tidy = summary(tmp_path).tidy().set_index(["metric", "reading"])
    assert tidy.loc[("accuracy", LAST), ["mean", "sd", "seeds"]].tolist() == pytest.approx(
        [0.6, 0.1, 3]
    )
    assert tidy.loc[("loss", LAST), "mean"] == pytest.approx(0.4)
    assert tidy.loc[("seconds", LAST), "mean"] == 1


def test_of_equal_runs_the_latest_counts(tmp_path: Path) -> None:
    record(tmp_path, "a", [], [0.1, 0.2])
    record(tmp_path, "b", [], [0.1, 0.3])
    found = summary(tmp_path)
    assert found.set_aside == 1
    assert found.accuracies()[LAST].tolist() == ["30.0"]


def test_runs_that_are_scored_in_other_rounds_are_not_averaged(tmp_path: Path) -> None:
    """The mean of the last five rounds, and the choice of a round, need those rounds."""
    for seed, every in ((0, 1), (1, 1), (2, 6)):
        words = [f"seed={seed}", f"evaluate_every={every}"]
        record(tmp_path, f"s{seed}", words, [0.1] * 6 + [0.2])
    assert summary(tmp_path).keys == ["evaluate_every"]
    assert sorted(summary(tmp_path).accuracies()["seeds"]) == [1, 2]


def test_settings_are_those_that_a_person_varied(tmp_path: Path) -> None:
    """The image size follows from the model here, and is left out."""
    for alpha in (0.05, 1.0):
        for model, size in (("cnn", 32), ("resnet56", 8)):
            words = [f"alpha={alpha}", f"model={model}", f"data.image_size={size}"]
            record(tmp_path, f"{alpha}-{model}", words, [0.1, 0.5])
    assert summary(tmp_path).keys == ["model", "alpha"]


def test_the_alpha_of_a_setting_is_the_one_that_the_split_used(tmp_path: Path) -> None:
    """The key `alpha` itself is the default in both runs, and used by neither split."""
    record(tmp_path, "a", ["partition.alpha=0.01"], [0.1, 0.5])
    record(tmp_path, "b", ["partition.alpha=1.0"], [0.1, 0.6])
    found = summary(tmp_path)
    assert found.keys == ["alpha"]
    assert found.frame.set_index("run")["setting"].to_dict() == {"a": "alpha 0.01", "b": "alpha 1"}


def test_a_setting_that_a_run_does_not_have_is_empty() -> None:
    assert [format_value(value) for value in (float("nan"), 0.05, 3, "iid")] == [
        "", "0.05", "3", "iid"
    ]  # fmt: skip


def test_runs_without_a_setting_have_a_heading() -> None:
    assert heading_of((("rho", float("nan")),)) == "without rho"
    assert heading_of((("alpha", 0.1), ("rho", float("nan")))) == "alpha 0.1"
    assert heading_of(()) == "all runs"


def test_a_setting_that_is_null_is_not_one_that_a_run_does_not_have(tmp_path: Path) -> None:
    record(tmp_path, "a", ["partition=iid"], [0.1, 0.5])
    record(tmp_path, "b", ["alpha=0.1"], [0.1, 0.5])
    record(tmp_path, "c", ["alpha=1", "optim.max_gradient_norm=10"], [0.1, 0.5])
    record(tmp_path, "d", ["alpha=1"], [0.1, 0.5])
    found = summary(tmp_path)
    shown = found.runs_as_shown().set_index("run")[["alpha", "optim.max_gradient_norm"]]
    assert shown.loc["a"].tolist() == ["", "None"]
    assert shown.loc["c"].tolist() == ["1", "10"]
    assert "alpha" not in found.frame.set_index("run").loc["a", "setting"]


def test_a_methods_own_settings_tell_its_rows_apart(tmp_path: Path) -> None:
    record(tmp_path, "a", ["method=fedprox"], [0.1, 0.5])
    record(tmp_path, "b", ["method=fedprox", "method.proximal_weight=0.5"], [0.1, 0.6])
    record(tmp_path, "c", ["method=univarfl"], [0.1, 0.7])
    record(tmp_path, "d", ["method=univarfl", "method.variance_weight=0"], [0.1, 0.7])
    assert sorted(summary(tmp_path).accuracies()["method"]) == [
        "FedProx (proximal_weight=0.01)", "FedProx (proximal_weight=0.5)",
        "UniVarFL", "UniVarFL (variance_weight=0)",
    ]  # fmt: skip


def test_differences_are_paired_by_seed(tmp_path: Path) -> None:
    """Seeds 0 and 1 are common: +10 and +20, mean 15, sd 7.07, t(1) 12.706: 15 ± 63.5."""
    for method, seeds in (
        ("fedavg", {0: 0.5, 1: 0.4, 2: 0.9}),
        ("univarfl", {0: 0.6, 1: 0.6, 3: 0.1}),
    ):
        for seed, accuracy in seeds.items():
            record(tmp_path, f"{method}{seed}", [f"method={method}", f"seed={seed}"], [0, accuracy])
    (row,) = summary(tmp_path).differences().to_dict("records")
    assert (row["method"], row["minus"], row["pairs"]) == ("UniVarFL", "FedAvg", 2)
    assert row["last round"] == "+15.0 (-48.5 to +78.5)"
    assert "mean of the last five" not in row  # of fewer than five rounds


def test_rounds_to_a_target(tmp_path: Path) -> None:
    record(tmp_path, "a", ["method=fedavg", "seed=0"], [0.1, 0.5, 0.8, 0.7])
    record(tmp_path, "b", ["method=fedavg", "seed=1"], [0.1, 0.2, 0.3, 0.4])
    (row,) = summary(tmp_path).targets([0.5, 0.8, 0.9]).to_dict("records")
    assert row["rounds to 50.0 %"] == "1.0 (1 of 2 seeds)"
    assert row["rounds to 80.0 %"] == "2.0 (1 of 2 seeds)"
    assert row["rounds to 90.0 %"] == "never (0 of 2 seeds)"
    (row,) = summary(tmp_path).targets([]).to_dict("records")
    assert row["target, %"] == "55.0"


def test_published_numbers_stand_beside_their_very_settings_only(tmp_path: Path) -> None:
    paper = ("published=[{name: T1, at: {rho: 1.0}, cells: "
             "[{at: {method: fedavg, alpha: 0.3}, mean: 28.1, sd: 1.3}]}]")  # fmt: skip
    record(tmp_path, "a", [paper, "method=fedavg"], [0.1, 0.5])
    record(tmp_path, "b", [paper, "method=fedavg", "rho=0.5"], [0.1, 0.5])
    record(tmp_path, "c", [paper, "method=univarfl"], [0.1, 0.5])
    unsaid = (
        "model.norm=group", "partition.balanced=false", "optim.nesterov=true",
        "partition.alpha=0.1", "guard=clip", "after=ccvr", "strategy=fedavgm", "secure=masked",
        "clock=virtual", "model=linear", "privacy=example",
    )  # fmt: skip
    for name, word in zip("defghijklmn", unsaid, strict=True):
        private = ["model.norm=group"] if word.startswith("privacy") else []
        record(tmp_path, name, [paper, "method=fedavg", word, *private], [0.1, 0.5])
    table = summary(tmp_path).accuracies()
    beside = table[table["published"] != ""]
    assert len(table) == 14
    assert beside[["method", "rho", "model.norm", "published"]].to_numpy().tolist() == [
        ["FedAvg", "1", "batch", "28.1 ± 1.3 (T1)"]
    ]


def test_published_numbers_are_of_the_methods_own_coefficients(tmp_path: Path) -> None:
    paper = "published=[{name: T1, at: {method: fedprox}, cells: [{at: {}, mean: 28.1}]}]"
    record(tmp_path, "a", [paper, "method=fedprox"], [0.1, 0.5])
    record(tmp_path, "b", [paper, "method=fedprox", "method.proximal_weight=1"], [0.1, 0.5])
    table = summary(tmp_path).accuracies().set_index("method")["published"]
    assert table.to_dict() == {
        "FedProx (proximal_weight=0.01)": "28.1 (T1)", "FedProx (proximal_weight=1)": "",
    }  # fmt: skip


def test_one_pair_has_no_interval() -> None:
    assert difference(pd.Series([1.0]), "+.1f") == "+1.0"


def test_methods_that_were_tuned_by_themselves_are_compared(tmp_path: Path) -> None:
    """FedAvg with 0.1 has 50 and 60 %, UniVarFL with 0.05 has 60 and 64 %: +10 and +4 points."""
    for seed in (0, 1):
        words = [f"seed={seed}", "method=fedavg", "optim.lr=0.1"]
        record(tmp_path, f"f{seed}", words, [0.1, 0.5 + 0.1 * seed])
        record(tmp_path, f"u{seed}", [f"seed={seed}", "optim.lr=0.05"], [0.1, 0.6 + 0.04 * seed])
    assert summary(tmp_path).differences().empty
    tuned = Summary(read_runs(tmp_path).runs, ["optim.lr"])
    (row,) = tuned.differences().to_dict("records")
    assert (row["method"], row["minus"], row["pairs"]) == ("UniVarFL", "FedAvg", 2)
    assert str(row[LAST]).startswith("+7.0 (")
    assert tuned.tuned_settings().to_dict("records") == [
        {"method": "FedAvg", "tuned": "optim.lr=0.1"},
        {"method": "UniVarFL", "tuned": "optim.lr=0.05"},
    ]
    record(tmp_path, "other", ["seed=0", "method=fedavg", "optim.lr=0.2"], [0.1, 0.4])
    two = Summary(read_runs(tmp_path).runs, ["optim.lr"])
    methods = {"FedAvg [optim.lr=0.1]", "FedAvg [optim.lr=0.2]", "UniVarFL"}
    assert {method for _, method in two.counted} == methods
    (minus,) = {row["minus"] for row in two.differences("UniVarFL").to_dict("records")}
    assert minus == "UniVarFL"


def test_a_tuned_setting_of_the_method_itself_is_not_in_its_label(tmp_path: Path) -> None:
    for alpha, weight in (("0.1", "0.01"), ("0.5", "1.0")):
        words = ["method=fedprox", f"method.proximal_weight={weight}", f"alpha={alpha}"]
        record(tmp_path, f"a{alpha}", words, [0.1, 0.5])
    tuned = Summary(read_runs(tmp_path).runs, ["method.proximal_weight"])
    assert {method for _, method in tuned.counted} == {"FedProx"}
