"""FedBuff in a deployment with TLS: a much slower site joins later server steps."""

from pathlib import Path

import pytest

from server_app.runs.records.run_record import read_entries
from tests.conftest import rows
from tests.machines import Machines
from tests.task.data import making

FAST, SLOW = ("east", "north"), "south"
FEW, MANY = 8, 400  # images of each of two classes
ROUNDS = 12


@pytest.mark.slow
def test_a_slow_site_is_behind_and_nobody_waits_for_it(tmp_path: Path) -> None:
    for site in (*FAST, SLOW):
        kinds = [f"{site}/{kind}" for kind in ("cat", "dog")]
        making.tree(tmp_path / "images", kinds, MANY if site == SLOW else FEW)
    data = {site: tmp_path / "images" / site for site in (*FAST, SLOW)}
    with Machines(tmp_path / "machines", data) as machines:
        machines.coordinate()
        for site in data:
            machines.join(site)
        log = machines.run(
            "method=fedavg", "data=folder", "data.classes=[cat,dog]", "data.image_size=32",
            f"rounds={ROUNDS}", "local_epochs=5", "batch_size=8", f"evaluate_every={ROUNDS}",
            "partition=sites",
            f"partition.names=[{','.join(data)}]", "strategy=fedbuff", "strategy.buffer_size=2",
        )  # fmt: skip
        assert machines.ended() == 0, log.read_text()
        directory = machines.record()
    assert read_entries(directory)["status"] == "completed"
    updates = rows(directory, "clients.csv")
    behind = {
        site: [int(row["staleness"]) for row in updates if row["site"] == site] for site in data
    }
    seconds = {row["site"]: float(row["seconds"]) for row in updates}
    print(f"staleness {behind}, seconds of training {seconds}")
    assert len(updates) == 2 * ROUNDS
    assert all(row["status"] == "ok" for row in updates)
    assert behind[SLOW]
    assert min(behind[SLOW]) >= 2
    assert all(max(behind[site]) <= 1 for site in FAST)
    assert len(behind[SLOW]) < len(behind["east"]) / 2
    late = [row["event"] for row in rows(directory, "events.csv")]
    assert all(each.endswith("comes after the last server step: not used") for each in late)
