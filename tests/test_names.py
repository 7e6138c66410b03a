"""Names and keys in a deployment: a liar with a registered key, a rotation and a revocation."""

import shutil
from pathlib import Path

import pytest

from server_app.deploy.membership.public_keys import pem, read_public_key
from server_app.deploy.places import CoordinatorPlace
from server_app.flower.database import registered_nodes
from server_app.runs.records.record import read_record
from tests.conftest import rows
from tests.machines import COORDINATOR, Machines, until
from tests.task.data import making


def lie(directory: Path, name: str, claimed: str) -> None:
    """Have a site use its own key and call itself by another site's name."""
    for suffix in ("key", "pub"):
        shutil.copy(directory / f"{name}.{suffix}", directory / f"{claimed}.{suffix}")
    settings = directory / "site.toml"
    settings.write_text(settings.read_text().replace(f'site = "{name}"', f'site = "{claimed}"'))


@pytest.mark.slow
def test_a_liar_a_rotation_and_a_revocation_without_a_restart(tmp_path: Path) -> None:
    images = making.tree(tmp_path / "images", ["cat", "dog"], 12)
    with Machines(tmp_path / "machines", {"east": images, "west": images}) as machines:
        place = CoordinatorPlace(machines.federation)
        lie(machines.root / "west", "west", "north")
        coordinator, east = machines.coordinate(), machines.join("east")
        until(lambda: "joined" in east.read_text(), "east")

        old = pem(read_public_key(place.sites / "east.pub"))
        machines.deploy("east", "keys", "east", "--site", "east", "--rotate")
        rotation = machines.root / "east" / "east.rotation"
        verify = ["keys", "federation", "--verify", str(rotation)]
        assert "its old key signed this" in machines.deploy(COORDINATOR, *verify).stdout
        shutil.copy(rotation, place.sites)
        until(lambda: "site east has a new key" in coordinator.read_text(), "the rotation")
        until(lambda: east.read_text().count("joined") == 2, "east with its new key")
        new = pem(read_public_key(place.sites / "east.pub"))
        assert {node.key: node.active for node in registered_nodes(place.database)
                if node.name == "east"} == {old: False, new: True}  # fmt: skip

        west = machines.join("west")
        until(lambda: "joined" in west.read_text(), "the liar")
        log = machines.run(
            "data=folder", "data.classes=[dog,cat]", "data.image_size=32", "rounds=1",
            "local_epochs=1", "partition=sites", "partition.names=[east,north,west]",
            "federation.join_timeout=40", "federation.quorum=0.1",
        )  # fmt: skip
        assert machines.ended() == 0, log.read_text()
        assert read_record(machines.record())["status"] == "completed"
        told = {row["site"]: row["event"] for row in rows(machines.record(), "events.csv")
                if row["event"].startswith("refused")}  # fmt: skip
        assert told == {
            "west": "refused: it calls itself 'north', and its key belongs to site west"
        }
        clients = rows(machines.record(), "clients.csv")
        assert [(row["site"], row["status"]) for row in clients] == [
            ("east", "ok"), ("north", "failed"), ("west", "failed"),
        ]  # fmt: skip

        revoked = machines.deploy(COORDINATOR, "revoke", "federation", "west").stdout
        assert "site west may not join any more" in revoked
        until(lambda: "has revoked this key of site west" in west.read_text(), "the revocation")
        active = [node.name for node in registered_nodes(place.database) if node.active]
        assert active == ["east"]
