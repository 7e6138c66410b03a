"""The listing of the papers' tables."""

import pytest

from server_app.config.choices import SWEEPS, names_in
from server_app.sweep.paper_tables import HEADINGS, paper_rows
from server_app.sweep.papers import papers
from task.errors import ConfigError


def test_a_table_is_listed_with_what_is_expected_and_what_it_costs() -> None:
    table = papers(["univarfl_table2"])
    assert len(table) == 15
    quick = set(table[list(HEADINGS)].itertuples(index=False, name=None))
    assert set(paper_rows(["univarfl_table2"])) == quick
    assert set(table["data"]) == {"stl10"}
    rows = {(row["method"], row["with"].split("rho=")[1]): row for row in table.to_dict("records")}
    assert rows["univarfl", "0.1"]["published, %"] == "23.4 ± 3.1"
    cost = {key: row["PFLOP a run"] for key, row in rows.items()}
    assert cost["fedavg", "1.0"] == pytest.approx(2 * cost["fedavg", "0.5"], abs=0.15)
    assert cost["univarfl", "1.0"] == pytest.approx(cost["fedavg", "1.0"], abs=0.15)
    assert cost["moon", "1.0"] == pytest.approx(5 / 3 * cost["fedavg", "1.0"], abs=0.15)


def test_every_table_is_in_the_quick_listing() -> None:
    assert {row[0] for row in paper_rows([])} == set(names_in(SWEEPS))


def test_numbers_keep_their_digits_and_images_all_train() -> None:
    table = papers(["niid_bench_mnist"])
    rows = {(row["method"], row["with"]): row for row in table.to_dict("records")}
    assert rows["fedavg", "alpha=0.5"]["published, %"] == "98.89 ± 0.07"
    # 60,000 images, 500 epochs. LeNet's forward pass has 281,640 multiplications, the backward pass
    # twice as many but for the 86,400 that the images' own gradient would take.
    flops = rows["fedavg", "alpha=0.5"]["PFLOP a run"]
    assert flops == pytest.approx(60_000 * 500 * 2 * (3 * 281_640 - 86_400) / 1e15, rel=0.02)


def test_an_unknown_table_is_refused() -> None:
    with pytest.raises(ConfigError, match="sweep=table9: choose one of fedalign_table1"):
        papers(["table9"])
