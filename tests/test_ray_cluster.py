"""A Ray cluster that runs already: two raylets, as two machines would be."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import psutil
import pytest

from server_app.engines.cluster import check_address
from server_app.engines.processes import free_ports, stop
from server_app.run_record import read_record, rounds_done
from task.errors import ConfigError
from tests.conftest import SMALL, Train, sha256
from tests.machines import UNIVARFL, until

RAY = str(Path(sys.executable).with_name("ray"))


class Cluster:
    """Raylets of one CPU each, ended with the context."""

    def __init__(self) -> None:
        self.address = f"127.0.0.1:{free_ports(1)[0]}"
        self._processes: list[subprocess.Popen[bytes]] = []
        # Short: Ray's sockets lie deep in it, and their names have at most 107 characters.
        self._scratch = tempfile.mkdtemp(prefix="ray", dir="/tmp")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        stop(self._processes)
        shutil.rmtree(self._scratch, ignore_errors=True)

    def raylet(self, memory: Path) -> psutil.Process:
        """Start one more, whose workers keep the clients' memory there."""
        port = self.address.partition(":")[2]
        where = (
            [f"--address={self.address}"]
            if self._processes
            else ["--head", f"--port={port}", "--include-dashboard=false",
                  f"--temp-dir={self._scratch}"]
        )  # fmt: skip
        process = subprocess.Popen(
            [RAY, "start", *where, "--num-cpus=1", "--disable-usage-stats", "--block"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            env={**os.environ, "UNIVARFL_MEMORY": str(memory)},
        )  # fmt: skip
        self._processes.append(process)
        until(lambda: raylet_of(process) and self._count() == len(self._processes), "a raylet")
        found = raylet_of(process)
        assert found
        return found

    def train(self, *words: str) -> "subprocess.Popen[str]":
        """``univarfl train`` on the cluster."""
        return subprocess.Popen(
            [UNIVARFL, "train", *words],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "RAY_ADDRESS": self.address},
        )  # fmt: skip

    def _count(self) -> int:
        done = subprocess.run(
            [RAY, "status", "--address", self.address], capture_output=True, text=True, check=False
        )
        return done.stdout.count(" node_")


def raylet_of(process: "subprocess.Popen[bytes]") -> psutil.Process | None:
    """The raylet that a ``ray start`` began."""
    for child in psutil.Process(process.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if child.name() == "raylet":
                return child
    return None


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """One that is empty."""
    with Cluster() as found:
        yield found


@pytest.mark.slow
def test_two_raylets_train_as_one_process_does(
    cluster: Cluster, train: Train, tmp_path: Path
) -> None:
    """A client may come to either, so what it remembers must lie where both look."""
    words = [*SMALL[1:], f"output_dir={tmp_path}"]
    cluster.raylet(tmp_path / "memory")
    cluster.raylet(tmp_path / "another")
    said = cluster.train(*words, "method=moon", "run_id=apart").communicate(timeout=240)[0]
    assert "the clients' memory is kept in 2 places (supernode-0 on" in said
    assert "set UNIVARFL_MEMORY to one directory that all machines share" in said
    assert read_record(tmp_path / "apart")["status"] == "failed"
    said = cluster.train(*words, "run_id=two").communicate(timeout=240)[0]
    assert "2 SuperNodes ready (ray, cpu)" in said
    assert sha256(tmp_path / "two") == sha256(train())


@pytest.mark.slow
def test_a_raylet_that_dies_in_a_round_costs_that_round_alone(
    cluster: Cluster, train: Train, tmp_path: Path
) -> None:
    words = ["method=moon", "rounds=4", "local_epochs=3"]
    place, memory = tmp_path / "run", tmp_path / "shared"
    cluster.raylet(memory)
    second = cluster.raylet(memory)
    run = cluster.train(*SMALL[1:], *words, f"output_dir={tmp_path}", "run_id=run")
    until(lambda: rounds_done(place) >= 1 or run.poll() is not None, "the first round")
    actors = [each for each in second.children(recursive=True) if "ClientApp" in each.name()]
    assert actors
    second.kill()
    said = run.communicate(timeout=240)[0]
    assert "a worker's process has ended" in said
    assert "Flower is started anew, and the run goes on" in said
    assert read_record(place)["status"] == "completed"
    assert sha256(place) == sha256(train(*words))


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("127.0.0.1:1", "connection refused"),
        ("no-such-host.invalid:6379", "name"),
        ("ray://127.0.0.1:10001", "it is no host:port"),
        ("here", "it is no host:port"),
        ("[::1]:1", "connection refused"),
    ],
)
def test_an_address_where_nobody_is(
    monkeypatch: pytest.MonkeyPatch, address: str, why: str
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(ConfigError) as refused:
        check_address()
    assert f"RAY_ADDRESS={address}: no Ray cluster of this version answers there" in str(
        refused.value
    )
    assert why in str(refused.value).lower()
