"""Runs on an existing Ray cluster of two raylets, as two machines would form."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from server_app.runs.records.run_record import read_entries
from server_app.runs.records.tables import count_rounds
from task.errors import ConfigError
from tests.conftest import SMALL, Train, sha256
from tests.machines import until
from tests.ray_cluster import Cluster
from univarfl.engines.cluster import require_reachable_cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Return a cluster without raylets."""
    with Cluster() as found:
        yield found


@pytest.mark.slow
def test_two_raylets_train_as_one_process_does(
    cluster: Cluster, train: Train, tmp_path: Path
) -> None:
    """Any worker may train a client, so all workers must share the client state."""
    words = [*SMALL[1:], f"output_dir={tmp_path}"]
    cluster.raylet(tmp_path / "memory")
    cluster.raylet(tmp_path / "another")
    said = cluster.train(*words, "method=moon", "run_id=apart").communicate(timeout=240)[0]
    assert "the clients' states are kept in 2 places (supernode-0 on" in said
    assert "set UNIVARFL_MEMORY to a directory that all machines share" in said
    assert read_entries(tmp_path / "apart")["status"] == "failed"
    said = cluster.train(*words, "run_id=two").communicate(timeout=240)[0]
    assert "2 SuperNodes ready (ray, cpu)" in said
    assert sha256(tmp_path / "two") == sha256(train())


@pytest.mark.slow
def test_a_raylet_that_dies_costs_only_the_current_round(
    cluster: Cluster, train: Train, tmp_path: Path
) -> None:
    words = ["method=moon", "rounds=4", "local_epochs=3"]
    place, memory = tmp_path / "run", tmp_path / "shared"
    cluster.raylet(memory)
    second = cluster.raylet(memory)
    run = cluster.train(*SMALL[1:], *words, f"output_dir={tmp_path}", "run_id=run")
    until(lambda: count_rounds(place) >= 1 or run.poll() is not None, "the first round")
    actors = [each for each in second.children(recursive=True) if "ClientApp" in each.name()]
    assert actors
    second.kill()
    said = run.communicate(timeout=240)[0]
    assert "a worker's process has ended" in said
    assert "the workers are restarted to resume the run" in said
    assert read_entries(place)["status"] == "completed"
    assert sha256(place) == sha256(train(*words))


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("127.0.0.1:1", "connection refused"),
        ("no-such-host.invalid:6379", "name"),
        ("ray://127.0.0.1:10001", "it is not host:port"),
        ("here", "it is not host:port"),
        ("127.0.0.1:65536", "it is not host:port"),
        ("[::1]:1", "connection refused"),
    ],
)
def test_an_address_without_a_ray_cluster_is_refused(
    monkeypatch: pytest.MonkeyPatch, address: str, why: str
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(ConfigError) as refused:
        require_reachable_cluster()
    assert f"RAY_ADDRESS={address}: no Ray cluster of this version answers there" in str(
        refused.value
    )
    assert why in str(refused.value).lower()
