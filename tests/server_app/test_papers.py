"""The listing of the papers' tables."""

import pytest

from server_app.papers import papers
from task.errors import ConfigError


def test_a_table_is_listed_with_what_is_expected_and_what_it_costs() -> None:
    table = papers(["univarfl_table2"])
    assert len(table) == 15
    (row,) = table[(table["method"] == "univarfl") & table["with"].str.contains("rho=0.1")].to_dict(
        "records"
    )
    assert row["data"] == "stl10"
    assert row["published, %"] == "23.4 ± 3.1"
    cost = table.set_index(["method", "with"])["PFLOP a run"].unstack(0)
    assert (cost["moon"] > 2 * cost["fedavg"] / 3).all()
    assert (cost["univarfl"] >= cost["fedavg"]).all()
    shares = cost["fedavg"] / cost["fedavg"].max()
    assert sorted(shares) == pytest.approx([0.1, 0.5, 1.0], abs=0.01)


def test_an_unknown_table_is_refused() -> None:
    with pytest.raises(ConfigError, match="sweep=table9: choose one of fedalign_table1"):
        papers(["table9"])
