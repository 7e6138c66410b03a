"""A coordinator and sites with TLS and keys: hosts of their own where namespaces are allowed."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

from server_app.analysis.analyse import analyse
from server_app.run_record import read_record
from task.fingerprint import code_directories, fingerprint
from tests.conftest import Train, rows, sha256
from tests.machines import Machines, until
from tests.task.data import making

CLASSES = "data.classes=[dog,cat,fox]"
WORDS = [
    "data=folder", CLASSES, "data.image_size=32", "rounds=1", "local_epochs=1",
    "watch.models_every=1",
]  # fmt: skip
SITES = ("east", "north", "south", "west")

pytestmark = pytest.mark.slow


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Four sites' own folders, one without a fox, and all of them together as domains."""
    kinds = [f"{site}/{kind}" for site in SITES for kind in ("cat", "dog", "fox")]
    making.tree(tmp_path / "together", [kind for kind in kinds if kind != "north/fox"], 12)
    for site in SITES:
        shutil.copytree(tmp_path / "together" / site, tmp_path / site, copy_function=shutil.copy2)
    making.tree(tmp_path / "test", ["cat", "dog"], 4)
    return tmp_path


def test_sites_train_as_the_same_domains_do_in_simulation(
    images: Path, tmp_path: Path, train: Train
) -> None:
    settings = {"south": "tell-labels = true\n"}
    data = {site: images / site for site in SITES}
    with Machines(tmp_path / "machines", data, settings) as machines:
        machines.coordinate()
        for site in SITES:
            machines.join(site)
        log = machines.run(
            *WORDS, "partition=sites", "partition.names=[south,west,north,east]",
            f"data.root={images / 'test'}", "data.test_share=1",
        )  # fmt: skip
        assert machines.ended() == 0, log.read_text()
        directory = machines.record()
    record = read_record(directory)
    workers = [(worker["site"], worker.get("labels")) for worker in record["workers"]]
    labels = [12, 12, 12]
    assert workers == [("east", None), ("north", None), ("south", labels), ("west", None)]
    assert {worker["host"] for worker in record["workers"]} == {""}
    assert record["data"]["clients"] == [36, 24, 36, 36]
    assert record["data"]["test"] == 8
    trained = [(row["site"], row["status"]) for row in rows(directory, "clients.csv")]
    assert trained == [(site, "ok") for site in SITES]
    simulated = train(
        *WORDS, "partition=domains", "num_clients=4", f"data.root={images / 'together'}",
        "data.test_share=0",
    )  # fmt: skip
    assert sha256(simulated) == sha256(directory)
    analyse([directory, simulated], ["spread", "drift", "curvature"], 8)
    assert spread_on(directory) == {"test"}, "the coordinator has no client's images"
    assert spread_on(simulated) == {"own"}, "there are no test images"
    assert not (directory / "analysis" / "curvature.csv").exists()
    drifts = [pd.read_csv(run / "analysis" / "drift.csv") for run in (directory, simulated)]
    pd.testing.assert_frame_equal(*drifts)


def spread_on(directory: Path) -> set[str]:
    """The kinds of images that a run's models were looked at on."""
    return set(pd.read_csv(directory / "analysis" / "spread.csv")["images"])


def test_who_may_not_join_learns_why_and_nothing_is_trained(images: Path, tmp_path: Path) -> None:
    making.tree(images / "secret_name", ["cat", "dog", "zebra"], 4)
    with Machines(tmp_path / "machines", {"north": images / "secret_name"}) as machines:
        machines.coordinate()
        machines.deploy("north", "keys", "east", "--site", "east", "--data", str(images / "south"))
        shutil.copy(machines.federation / "ca.crt", machines.root / "east")
        address = f"{machines.host}:{machines.port}"
        stranger = machines.deploy("north", "site", "east", "--coordinator", address, check=False)
        assert stranger.returncode == 1
        assert "the coordinator does not know the key of site east: send them" in stranger.stderr
        machines.deploy("north", "keys", "elsewhere", "--host", "elsewhere.example.org")
        shutil.copy(machines.root / "elsewhere" / "ca.crt", machines.root / "east")
        deceived = machines.deploy("north", "site", "east", "--coordinator", address, check=False)
        assert deceived.returncode == 1
        assert "it is not the one that ca.crt vouches for" in deceived.stdout

        shadow = tmp_path / "shadow"
        for folder, path in code_directories().items():
            shutil.copytree(path, shadow / folder)
        shutil.copytree(path.with_name("server_app"), shadow / "server_app")
        with (shadow / "task" / "wire.py").open("a") as file:
            file.write("\n# changed\n")
        expect = ["--coordinator", address, "--expect", fingerprint()]
        shadowed = machines.deploy(
            "north", "site", "north", *expect, check=False, PYTHONPATH=str(shadow)
        )
        assert shadowed.returncode == 1
        assert f"the coordinator runs {fingerprint()[:12]}; install the same" in shadowed.stdout

        north = machines.join("north")
        log = machines.run(*WORDS, "partition=sites", "partition.names=[north]")
        assert machines.ended() == 1
        assert "site north failed; its own log says why" in log.read_text()
        assert "secret_name" not in (machines.record() / "run.log").read_text()
        until(lambda: "zebra" in north.read_text(), "the site's reason")
        assert (
            "class 'zebra' is not among the experiment's classes dog, cat, fox" in north.read_text()
        )
        assert rows(machines.record(), "clients.csv") == []
