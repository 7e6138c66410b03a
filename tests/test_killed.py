"""Commands that are killed: everything that they started ends too."""

import subprocess
from pathlib import Path

import pytest

from server_app.runs.records.run_record import read_entries
from tests.conftest import SMALL
from tests.machines import Machines, until
from tests.processes import UNIVARFL, alive, family_of, names
from tests.task.data import making

pytestmark = pytest.mark.slow

END_SECONDS = 60.0


def kill_and_wait(pid: int, *expected: str) -> None:
    """Kill a command once its family has the expected programs, and wait for the family's end."""
    until(lambda: all(name in names(family_of(pid)) for name in expected), f"{expected}", 120)
    family = family_of(pid)
    family[0].kill()
    until(lambda: not alive(family), "the end of the family", END_SECONDS)


def test_a_killed_train_leaves_neither_flower_nor_ray(tmp_path: Path) -> None:
    words = [*SMALL[1:], "engine=flower", "rounds=500", f"output_dir={tmp_path}"]
    train = subprocess.Popen([UNIVARFL, "train", *words], stdout=subprocess.DEVNULL)
    kill_and_wait(
        train.pid, "flower-superlink", "flower-superexec", "flwr run", "flwr-simulation",
        "gcs_server", "raylet", "ray::ClientAppActor",
    )  # fmt: skip
    train.wait()


def test_a_killed_sweep_ends_its_jobs_superlink(tmp_path: Path) -> None:
    words = [*SMALL[1:], "engine=flower", "rounds=500", f"output_dir={tmp_path}"]
    sweep = subprocess.Popen([UNIVARFL, "sweep", *words], stdout=subprocess.DEVNULL)
    kill_and_wait(sweep.pid, "flower-superlink", "flwr-simulation", "raylet")
    sweep.wait()


def test_a_killed_site_and_coordinator_leave_none_of_flowers_processes(tmp_path: Path) -> None:
    making.tree(tmp_path / "images", ["cat", "dog"], 12)
    with Machines(tmp_path / "machines", {"north": tmp_path / "images"}) as machines:
        machines.coordinate()
        log = machines.join("north")
        until(lambda: "joined;" in log.read_text(), "the site")
        machines.run(
            "data=folder", "data.classes=[cat,dog]", "data.image_size=32", "partition=sites",
            "partition.names=[north]", "rounds=500",
        )  # fmt: skip
        until(lambda: "answered by this site's own code" in log.read_text(), "a message")
        until(lambda: machines.rounds() >= 0, "the first round")
        site, run, coordinator = (
            machines.processes.pop(name).pid for name in ("north", "run", "coordinator")
        )
        kill_and_wait(site, "flower-supernode", "site_worker", "site.fork_server")
        kill_and_wait(run, "flwr run")
        until(lambda: "flwr-serverapp" not in names(family_of(coordinator)), "the ServerApp's end")
        assert "the command that submitted it" in read_entries(machines.record())["reason"]
        kill_and_wait(coordinator, "flower-superlink")
