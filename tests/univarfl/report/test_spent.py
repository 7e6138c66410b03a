"""Accuracy over simulated seconds and megabytes, with numbers worked out by hand beside each."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from server_app.runs.records.client_counts import recorded_counts
from server_app.runs.records.client_scores import ClientScore, save_client_scores
from server_app.runs.records.run_record import read_entries
from server_app.runs.records.tables import CLIENTS, ROUNDS
from tests.server_app.runs.recorded import CLASSES, append_rows, record, write_entries
from univarfl.records.reader import read_run, read_runs
from univarfl.report.charts.base import Plot
from univarfl.report.comparison import compare
from univarfl.report.spent.amounts import MEGABYTES, SECONDS, accuracy_by, spent_until
from univarfl.report.spent.charts import spent_charts
from univarfl.report.spent.participation import NOTE, participation_of
from univarfl.report.spent.targets import TITLE, targets_table
from univarfl.report.summary import Summary
from univarfl.report.write import report


def timed(
    place: Path,
    name: str,
    words: Sequence[str],
    test: Sequence[float],
    seconds: float,
    **facts: Any,
) -> Path:
    """A run whose rounds take so many simulated seconds; 4 clients send 500,000 bytes in each."""
    run = record(place, name, words, test)
    rows = [(at, "train", "simulated_seconds", seconds * at) for at in range(1, len(test))]
    append_rows(run / ROUNDS, rows)
    write_entries(run, read_entries(run) | {"reply_bytes": 500_000, **facts})
    return run


def summary(place: Path) -> Summary:
    return Summary(read_runs(place).runs)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """FedAvg reaches 50 % after 20 and 30 s, in round 2; MOON after 8 and 20 s."""
    timed(tmp_path, "a0", ["method=fedavg", "seed=0"], [0.1, 0.3, 0.5], 10)
    timed(tmp_path, "a1", ["method=fedavg", "seed=1"], [0.1, 0.3, 0.5], 15)
    timed(tmp_path, "m0", ["method=moon", "seed=0"], [0.1, 0.5, 0.6], 8)
    timed(tmp_path, "m1", ["method=moon", "seed=1"], [0.1, 0.4, 0.6], 10)
    return tmp_path


def test_what_a_run_spent_begins_with_nothing_and_adds_up(runs: Path) -> None:
    run = read_run(runs / "a1")
    for amount, expected in ((SECONDS, [0, 15, 30]), (MEGABYTES, [0, 2, 4])):
        spent, accuracies = accuracy_by(run, amount)
        assert spent.tolist() == expected
        assert accuracies.tolist() == pytest.approx([10, 30, 50])
    assert spent_until(run, 30, SECONDS) == 15
    assert np.isnan(spent_until(run, 51, SECONDS))


def test_a_mean_curve_has_the_interval_and_ends_with_the_shortest_run(runs: Path) -> None:
    """After 20 s seed 0 has 50 %, and seed 1 a third of the way from 30 to 50 %: mean 43.33.

    After 1 s they have 12 and 11.33 %: mean 11.67, half width 12.706 times 0.3333. Later intervals
    would go beyond 0 and 100 %.
    """
    seconds, megabytes = spent_charts(summary(runs))
    assert isinstance(seconds.figure, Plot)
    fedavg, moon = seconds.figure.series
    assert (fedavg.name, moon.name, seconds.figure.x) == ("FedAvg", "MOON", "simulated seconds")
    assert (fedavg.x[0], fedavg.x[-1], moon.x[-1]) == (0, 20, 16)
    assert fedavg.y[-1] == pytest.approx(43.3333, abs=1e-3)
    assert (fedavg.low[-1], fedavg.high[-1]) == (0, 100)
    assert fedavg.x[5] == 1
    assert fedavg.low[5] == pytest.approx(11.6667 - 12.7062 / 3, abs=1e-3)
    assert fedavg.high[5] == pytest.approx(11.6667 + 12.7062 / 3, abs=1e-3)
    assert isinstance(megabytes.figure, Plot)
    assert megabytes.figure.series[0].x[-1] == 4


def test_the_time_to_a_target_has_an_interval_over_seeds(runs: Path) -> None:
    """FedAvg 20 and 30 s: 25 with a half width of 12.706 times 5. All of it is in 4 MB."""
    fedavg, moon = targets_table(summary(runs), []).to_dict("records")
    assert fedavg["target, %"] == moon["target, %"] == "50.0"
    assert fedavg["simulated seconds"] == "25.0 (-38.5 to 88.5)"
    assert moon["simulated seconds"] == "14.0 (-62.2 to 90.2)"
    assert (fedavg["MB sent"], moon["MB sent"]) == ("4.0", "3.0 (-9.7 to 15.7)")
    found = targets_table(summary(runs), [0.45, 0.55])
    assert found["simulated seconds"].tolist()[1:] == [
        "never", "14.0 (-62.2 to 90.2)", "18.0 (-7.4 to 43.4)",
    ]  # fmt: skip


def test_a_seed_that_never_had_the_target_is_told(runs: Path) -> None:
    timed(runs, "a2", ["method=fedavg", "seed=2"], [0.1, 0.2, 0.3], 10)
    found = targets_table(summary(runs), [0.5])
    assert found["simulated seconds"][0] == "25.0 (2 of 3 seeds)"


def test_two_settings_share_a_chart(tmp_path: Path) -> None:
    for strategy in ("fedavg", "fedavgm"):
        words = ["method=fedavg", f"strategy={strategy}"]
        timed(tmp_path, strategy, words, [0.1, 0.3], 10)
    seconds, _ = spent_charts(summary(tmp_path))
    assert isinstance(seconds.figure, Plot)
    assert len(seconds.figure.series) == 2
    assert len({one.name for one in seconds.figure.series}) == 2
    assert seconds.figure.series[0].x == [0, 10]


def test_compare_pairs_the_times_by_seed(runs: Path) -> None:
    """MOON needs 12 s less with seed 0, and 10 s less with seed 1: -11, half width 12.706."""
    first, second = compare(runs / "a0", runs / "m0").times()
    assert first == (
        "simulated seconds until 50.0 %: 25.0 (-38.5 to 88.5) and 14.0 (-62.2 to 90.2); "
        "second - first: -11.0 (-23.7 to +1.7) over 2 seeds"
    )
    assert second.startswith("MB sent until 50.0 %: 4.0 and 3.0")


def test_without_the_size_of_a_reply_there_are_no_megabytes(tmp_path: Path) -> None:
    timed(tmp_path, "a", ["method=fedavg"], [0.1, 0.3], 10, reply_bytes=None)
    assert [chart.section for chart in spent_charts(summary(tmp_path))] == [
        "Accuracy over simulated time"
    ]
    assert targets_table(summary(tmp_path), [])["MB sent"].tolist() == [""]


@pytest.mark.parametrize("size", [0, "large", True])
def test_a_size_that_is_none_is_named(tmp_path: Path, size: Any) -> None:
    timed(tmp_path, "a", ["method=fedavg"], [0.1, 0.3], 10, reply_bytes=size)
    (problem,) = read_runs(tmp_path).problems
    assert problem.startswith("a: run.json: reply_bytes: must be ")


def test_a_report_has_the_section_only_with_a_virtual_clock(runs: Path, tmp_path: Path) -> None:
    report(runs, tmp_path / "timed", pictures=True)
    page = (tmp_path / "timed" / "index.html").read_text()
    assert "Accuracy over megabytes sent" in page
    assert f'<h2 id="{TITLE.lower().replace(" ", "-")}">{TITLE}</h2>' in page
    assert len(pd.read_csv(tmp_path / "timed/tables/simulated_time_to_a_target.csv")) == 2
    assert (tmp_path / "timed/pictures/simulated-all-runs.png").exists()
    record(tmp_path / "usual", "run", [], [0.1, 0.2])
    report(tmp_path / "usual", tmp_path / "plain")
    plain = (tmp_path / "plain" / "index.html").read_text()
    assert "simulated" not in plain[plain.index("<header>") : plain.index("</main>")]
    assert compare(tmp_path / "usual" / "run", runs / "a0").times() == []


class TestWhoTakesPart:
    """Ten clients; client k's attempts take k + 1 s, and the slowest of a round is left out."""

    def run(self, place: Path, name: str = "a0") -> Path:
        run = timed(
            place, name, ["num_clients=11", "clock=virtual"], [0.1, 0.5, 0.6], 10,
            data={"classes": list(CLASSES), "clients": [*range(100, 110), 5]},
        )  # fmt: skip
        rows = []
        for server_round, asked in ((1, range(5)), (2, (0, 5, 6, 7, 8, 9))):
            for client in asked:
                ok = client != max(asked)
                rows.append({
                    "round": server_round, "client": client, "status": "ok" if ok else "left out",
                    "staleness": client % 2 if ok else "", "simulated_seconds": client + 1,
                    "examples": (105 if client == 0 else 100 + client) if ok else 0,
                })  # fmt: skip
        header = (run / CLIENTS).read_text().splitlines()[0].split(",")
        append_rows(run / CLIENTS, [[row.get(name, "") for name in header] for row in rows])
        scores = [(client, "", 10 * (client + 1), client / 10, 0.5) for client in range(10)]
        save_client_scores(run, [ClientScore(*score) for score in scores])
        return run

    def test_the_shares_the_correlation_and_the_accuracy_are_those_counted_by_hand(
        self, tmp_path: Path
    ) -> None:
        found = participation_of(read_run(self.run(tmp_path)))
        assert found["fast_updates"] == pytest.approx(100 * 3 / 9)  # of clients 0 and 1
        assert found["slow_updates"] == pytest.approx(100 * 1 / 9)  # of 8, as 9 is left out
        assert found["never"] == 3  # 4 and 9 are left out, and 10 is not asked
        assert found["staleness"] == pytest.approx(4 / 9)
        assert found["fast_accuracy"] == pytest.approx(100 * (20 * 0.1) / 30)
        assert found["slow_images"] == 190
        assert found["slow_accuracy"] == pytest.approx(100 * (90 * 0.8 + 100 * 0.9) / 190)
        images = pd.Series([*range(100, 110), 5])
        updates = pd.Series([2, 1, 1, 1, 0, 1, 1, 1, 1, 0, 0])
        assert found["correlation"] == pytest.approx(spearmanr(images, updates).statistic)

    def test_of_very_many_clients_those_that_counted_are_compared(self, tmp_path: Path) -> None:
        run = self.run(tmp_path)
        facts = {"classes": list(CLASSES), "clients": recorded_counts(range(2000))}
        write_entries(run, read_entries(run) | {"data": facts})
        images, updates = [105, *range(101, 109)], [2, *[1] * 8]
        del images[4], updates[4]  # client 4 never counted
        expected = spearmanr(images, updates).statistic
        assert participation_of(read_run(run))["correlation"] == pytest.approx(expected)

    def test_the_report_has_the_table_and_names_a_damaged_record(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        self.run(tmp_path / "runs")
        report(tmp_path / "runs", tmp_path / "report")
        table = pd.read_csv(tmp_path / "report" / "tables" / "who_takes_part.csv")
        assert table["clients that never counted"].tolist() == [3]
        assert NOTE[:40] in (tmp_path / "report" / "index.html").read_text()
        (tmp_path / "runs" / "a0" / CLIENTS).write_text("round\nmany\n")
        report(tmp_path / "runs", tmp_path / "again")
        assert "a0: clients.csv" in caplog.text
        assert not (tmp_path / "again" / "tables" / "who_takes_part.csv").exists()
