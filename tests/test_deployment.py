"""A deployment with TLS and keys; each host has its own network namespace where allowed."""

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from server_app.runs.records.run_record import read_entries
from task.fingerprint import code_directories, fingerprint
from tests import hostile_bundle
from tests.conftest import CNN, LEARNS, Train, rows, sha256
from tests.machines import Machines, until
from tests.processes import end, family_of
from tests.task.data import making
from univarfl.analysis.analyse import analyse

SITES = ("north", "south")
CLASSES = "data.classes=[dog,cat,fox]"
WORDS = [
    "data=folder", CLASSES, *CNN, LEARNS, "rounds=1", "local_epochs=1", "watch.models_every=1",
]  # fmt: skip


def create_images(root: Path, sites: Sequence[str]) -> Path:
    """Create images for sites, north's without a fox, and the same images as domains."""
    kinds = [f"{site}/{kind}" for site in sites for kind in ("cat", "dog", "fox")]
    making.tree(root / "together", [kind for kind in kinds if kind != "north/fox"], 12)
    for site in sites:
        shutil.copytree(root / "together" / site, root / site, copy_function=shutil.copy2)
    making.tree(root / "test", ["cat", "dog"], 4)
    return root


@pytest.mark.slow
@pytest.mark.parametrize("names", [["south", "north"], ["south", "west", "north", "east"]], ids=len)
def test_sites_train_as_the_same_domains_do_in_simulation(
    names: list[str], tmp_path: Path, train: Train, request: pytest.FixtureRequest
) -> None:
    """Four sites also run a method of a package outside the clone, from given weights."""
    sites = sorted(names)
    images = create_images(tmp_path, sites)
    settings = {"south": "tell-labels = true\n"}
    more: list[str] = []
    if len(sites) == 4:
        package: Path = request.getfixturevalue("installed")
        request.getfixturevalue("monkeypatch").setenv("PYTHONPATH", str(package))
        settings = {
            site: f'{settings.get(site, "")}extensions = ["hospital-extras"]\n' for site in sites
        }
        first = train(*WORDS, "data.test_share=0", f"data.root={images / 'together'}")
        more = ["method=logit_decay", f"model.weights={first}"]
    data = {site: images / site for site in sites}
    with Machines(tmp_path / "machines", data, settings) as machines:
        machines.coordinate()
        for site in sites:
            machines.join(site)
        log = machines.run(
            *WORDS, *more, "partition=sites", f"partition.names=[{','.join(names)}]",
            f"data.root={images / 'test'}", "data.test_share=1",
        )  # fmt: skip
        assert machines.ended() == 0, log.read_text()
        directory = machines.record()
    record = read_entries(directory)
    workers = [(worker["site"], worker.get("labels")) for worker in record["workers"]]
    assert workers == [(site, [12, 12, 12] if site == "south" else None) for site in sites]
    assert {worker["host"] for worker in record["workers"]} == {""}
    assert record["data"]["clients"] == [24 if site == "north" else 36 for site in sites]
    assert record["data"]["test"] == 8
    trained = [(row["site"], row["status"]) for row in rows(directory, "clients.csv")]
    assert trained == [(site, "ok") for site in sites]
    simulated = train(
        *WORDS, *more, "partition=domains", f"num_clients={len(sites)}", "data.test_share=0",
        f"data.root={images / 'together'}",
    )  # fmt: skip
    assert sha256(simulated) == sha256(directory)
    assert ("hospital_extras.logit_decay" in record["components"]) == bool(more)
    analyse([directory, simulated], ["spread", "drift", "curvature"], 8)
    assert spread_on(directory) == {"test"}, "the coordinator has no client's images"
    assert spread_on(simulated) == {"own"}, "there are no test images"
    assert not (directory / "analysis" / "curvature.csv").exists()
    drifts = [pd.read_csv(run / "analysis" / "drift.csv") for run in (directory, simulated)]
    pd.testing.assert_frame_equal(*drifts)


@pytest.mark.slow
@pytest.mark.usefixtures("installed")
def test_sites_train_a_head_on_a_network_of_a_package(
    tmp_path: Path, train: Train, hospital_package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each site has a cache of its own, and gets the file of weights when it registers."""
    monkeypatch.setenv("PYTHONPATH", str(hospital_package))
    images = create_images(tmp_path, SITES)
    network = ["model=module", "model.target=hospital_extras.two_blocks:Plain", "model.head=fc"]
    words = ["data=folder", CLASSES, "data.image_size=16", LEARNS, "local_epochs=2", *network]
    words.append("augmentation=none")
    simulated = ["partition=domains", "num_clients=2", "data.test_share=0"]
    together = f"data.root={images / 'together'}"
    first = train(*words, *simulated, together, "rounds=1")
    head = [*words, "rounds=2", "tune=head", f"model.weights={first}"]
    data = {site: images / site for site in SITES}
    listed = dict.fromkeys(SITES, 'extensions = ["hospital-extras"]\n')
    with Machines(tmp_path / "machines", data, listed) as machines:
        machines.coordinate()
        for site in SITES:
            machines.join(site, UNIVARFL_CACHE=str(tmp_path / f"cache of {site}"))
        log = machines.run(
            *head, "partition=sites", f"partition.names=[{','.join(SITES)}]",
            f"data.root={images / 'test'}", "data.test_share=1",
        )  # fmt: skip
        assert machines.ended() == 0, log.read_text()
        directory = machines.record()
    assert sha256(train(*head, *simulated, together)) == sha256(directory)
    for site in SITES:
        cache = tmp_path / f"cache of {site}"
        assert [path.stem for path in (cache / "weights").iterdir()] == [sha256(first)]
        assert len(list((cache / "features").iterdir())) == 1
    assert read_entries(directory)["request_bytes"] < 1000


@pytest.mark.slow
def test_a_run_survives_its_server_app_and_its_superlink(tmp_path: Path, train: Train) -> None:
    images = create_images(tmp_path, ["north", "south"])
    words = [word.replace("rounds=1", "rounds=3") for word in WORDS]
    with Machines(tmp_path / "machines", {site: images / site for site in SITES}) as machines:
        machines.coordinate()
        for site in SITES:
            machines.join(site)
        log = machines.run(*words, "partition=sites", f"partition.names=[{','.join(SITES)}]")
        for server_round, programs in (
            (1, ["flwr-serverapp"]), (3, ["deploy gate", "flower-superlink"]),
        ):  # fmt: skip
            until(partial(has_reached, machines, server_round - 1), "the round")
            for program in programs:
                machines.kill_program(program)
        assert machines.ended() == 0, log.read_text()
        directory = machines.record()
        coordinator = (machines.root / "coordinator.log").read_text()
    assert log.read_text().count("; the run goes on after round") == 2
    assert "flower-superlink ended: " in coordinator
    assert "the gate ended: " in coordinator
    assert "it is started again" in coordinator
    simulated = train(
        *words, "partition=domains", "num_clients=2", "data.test_share=0",
        f"data.root={images / 'together'}",
    )  # fmt: skip
    assert sha256(simulated) == sha256(directory)


def has_reached(machines: Machines, server_round: int) -> bool:
    return machines.rounds() >= server_round


def spread_on(directory: Path) -> set[str]:
    """Return the kinds of images on which a run's models were analysed."""
    return set(pd.read_csv(directory / "analysis" / "spread.csv")["images"])


@pytest.mark.slow
def test_a_refused_site_is_told_the_reason_and_nothing_is_trained(tmp_path: Path) -> None:
    images = create_images(tmp_path, ["north", "south"])
    making.tree(images / "secret_name", ["cat", "dog", "zebra"], 4)
    with Machines(tmp_path / "machines", {"north": images / "secret_name"}) as machines:
        machines.coordinate()
        machines.deploy("north", "keys", "east", "--site", "east", "--data", str(images / "south"))
        shutil.copy(machines.federation / "ca.crt", machines.root / "east")
        address = f"{machines.host}:{machines.port}"
        stranger = machines.start("north", "site", "east", "--coordinator", address, log="east")
        unknown = "waiting: the coordinator does not know the key of site east"
        until(lambda: unknown in stranger.read_text(), "the reason")
        end([machines.processes.pop("east")])
        machines.deploy("north", "keys", "elsewhere", "--host", "elsewhere.example.org")
        shutil.copy(machines.root / "elsewhere" / "ca.crt", machines.root / "east")
        deceived = machines.deploy("north", "site", "east", "--coordinator", address, check=False)
        assert deceived.returncode == 1
        assert "ca.crt does not confirm its certificate" in deceived.stdout

        shadow = tmp_path / "shadow"
        for folder, path in code_directories().items():
            shutil.copytree(path, shadow / folder)
        shutil.copytree(path.with_name("server_app"), shadow / "server_app")
        shutil.copytree(path.with_name("univarfl"), shadow / "univarfl")  # it finds the packages
        with (shadow / "task" / "seeding.py").open("a") as file:
            file.write("\n# changed\n")
        expect = ["--coordinator", address, "--expect", fingerprint()]
        shadowed = machines.deploy(
            "north", "site", "north", *expect, check=False, PYTHONPATH=str(shadow)
        )
        assert shadowed.returncode == 1
        assert (
            f"--expect says {fingerprint()[:12]}; install the coordinator's version"
            in shadowed.stdout
        )

        north = machines.join("north")
        log = machines.run(
            *WORDS, "partition=sites", "partition.names=[north]",
        )  # fmt: skip
        assert machines.ended() == 1
        assert "site north failed; see the site's log for the reason" in log.read_text()
        assert "no site can be used: site north: refused" in log.read_text()
        assert "secret_name" not in (machines.record() / "run.log").read_text()
        until(lambda: "zebra" in north.read_text(), "the site's reason")
        known = "is not one of the experiment's classes, dog, cat, fox"
        assert f"class 'zebra' {known}" in north.read_text()
        assert rows(machines.record(), "clients.csv") == []

        harm, answers, bundle = hostile_bundle.submit(machines, tmp_path)
        until(answers.exists, "the sites' answers")
        until(answers.read_text, "the text of the answers")
        assert "a record is missing" in answers.read_text(), "the site has read it by its own code"
        assert f"bundle (SHA-256 {bundle}) is not used" in north.read_text()
        assert not harm.exists()
        (worker,) = (
            process
            for process in family_of(machines.processes["north"].pid)
            if "--supernode" in process.cmdline() and "supervisor" not in str(process.cmdline())
        )
        worker.kill()
        until(lambda: "the site's worker ended" in north.read_text(), "the next worker")
        assert machines.processes["north"].poll() is None
