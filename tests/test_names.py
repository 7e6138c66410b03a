"""Names and keys in a deployment: liars with registered keys, a rotation and a revocation."""

import shutil
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import rows, sha256
from tests.machines import COORDINATOR, Machines, until
from tests.processes import end
from tests.task.data import making
from univarfl.deploy.membership.public_keys import pem, read_public_key
from univarfl.deploy.places import CoordinatorPlace
from univarfl.flower.database import registered_nodes

# Python reads this file at each start. It changes what a site says about itself.
TELL_LIES = """
import importlib.abc, importlib.machinery, json, os, subprocess, sys

here, start = os.path.dirname(__file__), subprocess.Popen.__init__

def start_with_lies(self, *words, **options):
    env = options.get("env")  # a site's worker gives its fork server a path of its own
    if env and here not in env.get("PYTHONPATH", ""):
        env["PYTHONPATH"] = os.pathsep.join([here, env.get("PYTHONPATH", "")])
    start(self, *words, **options)

subprocess.Popen.__init__ = start_with_lies

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != "client_app.registration":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        run = spec.loader.exec_module
        def exec_module(module):
            run(module)
            describe = module.describe_site
            lie = json.loads(os.environ["LIE"])
            module.describe_site = lambda worker, site: describe(worker, site) | lie
        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Finder())
"""
LIES = {
    "cold": '{"site": ""}',
    "hill": '{"index": 99}',
    "south": "{}",  # the truth, but the run does not list it
    "west": '{"site": "east"}',
}
REFUSALS = {
    "cold": "refused: it names no site, and its key belongs to site cold",
    "hill": "refused: site hill says that it is client 99 of 4, and is client 2 of 4",
    "south": "ignored: partition.names does not list it",
    "west": "refused: it calls itself 'east', and its key belongs to site west",
}
WORDS = [
    "data=folder", "data.classes=[dog,cat]", "data.image_size=32", "rounds=1", "local_epochs=1",
    "partition=sites", "partition.names=[cold,east,hill,west]", "federation.join_timeout=20",
    "federation.quorum=0.1",
]  # fmt: skip


@pytest.mark.slow
def test_liars_a_rotation_and_a_revocation_without_a_restart(tmp_path: Path) -> None:
    images = making.tree(tmp_path / "images", ["cat", "dog"], 12)
    (tmp_path / "lies").mkdir()
    (tmp_path / "lies" / "sitecustomize.py").write_text(TELL_LIES)
    with Machines(tmp_path / "machines", dict.fromkeys(["east", *LIES], images)) as machines:
        place = CoordinatorPlace(machines.federation)
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

        lies = {name: machines.join(name, PYTHONPATH=str(tmp_path / "lies"), LIE=lie)
                for name, lie in LIES.items()}  # fmt: skip
        for name, said in lies.items():
            until(partial(has_joined, said), name)
        log = machines.run(*WORDS)
        assert machines.ended() == 0, log.read_text()
        among_liars = machines.record()
        told = {row["site"]: row["event"] for row in rows(among_liars, "events.csv")
                if row["event"].startswith(("refused", "ignored"))}  # fmt: skip
        assert told == REFUSALS

        revoked = machines.deploy(COORDINATOR, "revoke", "federation", "west").stdout
        assert "site west may not join any more" in revoked
        until(
            lambda: "has revoked this key of site west" in lies["west"].read_text(),
            "the revocation",
        )
        active = {node.name for node in registered_nodes(place.database) if node.active}
        assert active == {"east", *LIES} - {"west"}

        end([machines.processes.pop(name) for name in LIES])
        assert machines.run(*WORDS) == log
        assert machines.ended() == 0, log.read_text()
        alone = machines.record()
    assert sha256(alone) == sha256(among_liars)
    for directory in (alone, among_liars):
        trained = [(row["site"], row["status"]) for row in rows(directory, "clients.csv")]
        assert trained == [
            ("cold", "failed"), ("east", "ok"), ("hill", "failed"), ("west", "failed"),
        ]  # fmt: skip


def has_joined(log: Path) -> bool:
    return "joined" in log.read_text()
