"""Two machines with one site's key: one trains, and all three parties get a message."""

import shutil
from pathlib import Path

import pytest

from tests.conftest import rows
from tests.machines import COORDINATOR, Machines, until
from tests.processes import end
from tests.task.data import making
from tests.test_masked_deployment import with_rosters

SITES = ("east", "north", "south")
WORDS = [
    "data=folder", "data.classes=[cat,dog]", "data.image_size=32", "rounds=2", "local_epochs=1",
    "partition=sites", f"partition.names=[{','.join(SITES)}]",
]  # fmt: skip
MASKED = ["secure=masked", "strategy.weighting=uniform"]


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], MASKED], ids=["open", "masked"])
def test_a_copy_of_a_site_does_not_train_while_the_site_runs(
    more: list[str], tmp_path: Path
) -> None:
    images = making.tree(
        tmp_path / "images", [f"{site}/{kind}" for site in SITES for kind in ("cat", "dog")], 12
    )
    making.tree(tmp_path / "other", ["cat", "dog"], 30)
    with Machines(tmp_path / "machines", {site: images / site for site in SITES}) as machines:
        if more:
            with_rosters(machines, SITES)
        machines.coordinate()
        logs = {site: machines.join(site) for site in SITES}
        until(lambda: all("joined;" in log.read_text() for log in logs.values()), "the sites")
        original, copy = machines.root / "north", machines.root / "copy"
        shutil.copytree(original, copy, ignore=shutil.ignore_patterns("empty"))
        settings = (copy / "site.toml").read_text().replace(str(original), str(copy))
        settings = settings.replace(str(images / "north"), str(tmp_path / "other"))
        (copy / "site.toml").write_text(settings)
        address = f"{machines.host}:{machines.port}"
        second = machines.start("south", "site", "copy", "--coordinator", address, log="copy")
        told = "uses the key of site north"
        until(lambda: told in second.read_text(), "the second machine")
        coordinator = machines.root / f"{COORDINATOR}.log"
        warning = "two machines or directories use the key of site north"
        until(lambda: warning in coordinator.read_text(), "the coordinator")
        until(lambda: "asks with the key of site north" in logs["north"].read_text(), "the first")
        run = machines.run(*WORDS, *more)
        assert machines.ended() == 0, run.read_text()
        directory = machines.record()
        assert "joined" not in second.read_text()
        if not more:  # the second takes over once the first has ended
            end([machines.processes.pop("north")])
            until(lambda: "joined" in second.read_text(), "the second machine")
    trained = [(row["site"], row["status"]) for row in rows(directory, "clients.csv")]
    assert trained == [(site, "ok") for site in SITES] * 2
    assert logs["north"].read_text().count("trained on ") == 2
    assert "trained on " not in second.read_text()
