"""The listing of the papers' tables."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from server_app.config.choices import SWEEPS, names_in
from task.errors import ConfigError
from univarfl.sweeps.paper_tables import HEADINGS, paper_rows
from univarfl.sweeps.papers import papers, rows_of


@pytest.mark.slow
def test_a_table_is_listed_with_what_is_expected_and_what_it_costs() -> None:
    table = papers(["univarfl_table2"])
    assert len(table) == 15
    quick = set(table[list(HEADINGS)].itertuples(index=False, name=None))
    assert set(paper_rows(["univarfl_table2"])) == quick
    assert set(table["data"]) == {"stl10"}
    rows = {(row["method"], row["with"].split("rho=")[1]): row for row in table.to_dict("records")}
    assert rows["univarfl", "0.1"]["published"] == "23.4 ± 3.1"
    cost = {key: row["PFLOP a run"] for key, row in rows.items()}
    assert cost["fedavg", "1.0"] == pytest.approx(2 * cost["fedavg", "0.5"], abs=0.15)
    assert cost["univarfl", "1.0"] == pytest.approx(cost["fedavg", "1.0"], abs=0.15)
    assert cost["moon", "1.0"] == pytest.approx(5 / 3 * cost["fedavg", "1.0"], abs=0.15)


def test_every_table_is_in_the_quick_listing() -> None:
    rows = paper_rows([])
    assert {row[0] for row in rows} == {name for name in names_in(SWEEPS) if "_figure" not in name}
    counts = Counter(row[4] for row in rows)
    # 116 numbers besides accuracies: 24 in FedAlign's Table 1, 30 in its Table 5, 32 in its
    # Table 7, and 30 in FedUV's Table 5.
    assert counts.pop("test accuracy, %") == 342
    assert counts == {
        "top eigenvalue": 6, "trace": 6, "H_N": 6, "H_D": 6,
        "forward MFLOP": 26, "million parameters": 26, "seconds a round": 10 + 30,
    }  # fmt: skip


def test_numbers_besides_accuracy_are_listed_with_their_settings() -> None:
    rows = {row[1:5]: row[5] for row in paper_rows(["feduv_table5"])}
    assert rows["pacs", "moon", "partition=domains", "seconds a round"] == "70"
    rows = {row[1:5]: row[5] for row in paper_rows(["fedalign_table1"])}
    assert rows["cifar100", "gradaug", "alpha=0.5 method.subnetworks=2", "H_N"] == "2924"


def test_numbers_keep_their_digits_and_images_all_train() -> None:
    """The slow test also measures this machine's operations per second, which takes 0.6 GB."""
    table = rows_of("niid_bench_mnist", rate=1e12)
    rows: dict[tuple[object, ...], Any] = {(row["method"], row["with"]): row for row in table}
    assert rows["fedavg", "alpha=0.5"]["published"] == "98.89 ± 0.07"
    # 60,000 images, 500 epochs. LeNet's forward pass has 281,640 multiplications, the backward pass
    # twice as many but for the 86,400 that the images' own gradient would take.
    flops = rows["fedavg", "alpha=0.5"]["PFLOP a run"]
    assert flops == pytest.approx(60_000 * 500 * 2 * (3 * 281_640 - 86_400) / 1e15, rel=0.02)


@pytest.mark.parametrize("listed", [papers, paper_rows])
def test_a_figure_has_no_numbers(listed: Callable[[list[str]], object]) -> None:
    with pytest.raises(ConfigError, match="makes a figure, which has no published numbers"):
        listed(["feduv_figure1"])


def test_an_unknown_table_is_refused() -> None:
    with pytest.raises(ConfigError, match="sweep=table9: choose one of fedalign_table1"):
        papers(["table9"])
