"""A site behind a TCP forwarder or an HTTP proxy comes back when its coordinator does."""

from pathlib import Path

import pytest

from tests.conftest import rows
from tests.forwarder import Forwarder
from tests.machines import COORDINATOR, Machines, until
from tests.processes import end
from tests.task.data import making

HOST = "fl.test"  # no name server knows it; the proxy does


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["forwarder", "proxy"])
def test_a_site_trains_after_its_coordinator_was_away(kind: str, tmp_path: Path) -> None:
    making.tree(tmp_path / "images", ["cat", "dog"], 12)
    machines = Machines(tmp_path / "machines", {"north": tmp_path / "images"})
    machines.apart = False
    with machines, Forwarder(kind == "proxy", machines.port) as between:
        machines.deploy(COORDINATOR, "keys", "federation", "--host", HOST)
        machines.coordinate()
        if kind == "proxy":
            address, variables = (
                f"{HOST}:{machines.port}",
                {"HTTPS_PROXY": f"http://{between.address}"},
            )
        else:
            address, variables = f"localhost:{between.port}", {}
        log = machines.start("north", "site", "north", "--coordinator", address, **variables)
        until(lambda: "joined;" in log.read_text(), "the site")
        end([machines.processes.pop(COORDINATOR)])
        until(lambda: between.refused, "a connection to a coordinator that is away")
        machines.coordinate()
        run = machines.run(
            "data=folder", "data.classes=[cat,dog]", "data.image_size=32", "partition=sites",
            "partition.names=[north]", "rounds=1", "local_epochs=1",
        )  # fmt: skip
        assert machines.ended() == 0, run.read_text() + log.read_text()
        directory = machines.record()
    assert [row["status"] for row in rows(directory, "clients.csv")] == ["ok"]
